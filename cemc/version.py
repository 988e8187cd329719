"""The version of cemc: one number, read by the build and written into every generated file."""

__version__ = "0.1.0"
