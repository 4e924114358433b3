"""`python -m olrank` is the same as `olrank`."""

from olrank.cli import main

if __name__ == "__main__":
    main()
