"""Tenon beside other engines: the same models, in interleaved rounds."""
