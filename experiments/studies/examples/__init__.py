"""The worked examples: their numbers, pictures and walks through them."""
