"""Tables and captions to pages: index.html, and the measured numbers of README.md and docs/.

`index` fills the template of the page, `explorer` makes its data, `blocks` rewrites Markdown, and `parts` has what they
share. No module here measures, fits or draws.
"""
