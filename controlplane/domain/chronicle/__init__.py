"""The kinds of chronicle entries and the sentence for each."""
