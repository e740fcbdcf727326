"""Tables and captions to index.html, and to the generated parts of Markdown pages."""
