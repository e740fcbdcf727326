"""Tables and captions to pages: index.html, and the measured numbers of README.md and docs/.

`index` fills the template of the page with its own tables and what `explorer` and `provenance` make; `blocks` rewrites
Markdown. No module here measures, fits or draws.
"""
