"""The page to work in: look at labels, correct them, teach; a skin over one labelling session."""
