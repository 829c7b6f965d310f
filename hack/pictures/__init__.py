"""The drawn pictures of docs/images: python -m pictures [--check]."""
