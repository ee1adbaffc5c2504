"""One file per format; each registers itself in `appl.exchange.format.FORMATS`."""
