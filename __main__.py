"""``python -m medsanitize``."""

from medsanitize.cli import main

if __name__ == "__main__":
    main()
