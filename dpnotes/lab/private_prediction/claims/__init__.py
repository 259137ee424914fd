"""Claims 9 to 21: the trade-offs of private prediction (van der Maaten and Hannun 2020)."""
