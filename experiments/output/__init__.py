"""Files of results: tables and whatever follows from them, and the sentences on what became of them."""
