"""One file per command of ``heterofl-ray``. None imports torch before its arguments are checked."""
