"""The functions beyond the standard library, one table of overloads a module."""
