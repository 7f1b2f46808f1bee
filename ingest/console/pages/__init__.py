"""The pages of the console: each file answers the requests of some of them, `site` puts them
together.

A page is a function from a visit to an answer; its templates lie in `assets/templates`.
"""
