"""Tables and captions to pages: index.html, and the measured numbers of Markdown pages."""
