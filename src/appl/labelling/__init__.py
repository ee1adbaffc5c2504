"""From a few examples and a pile of images to labels."""
