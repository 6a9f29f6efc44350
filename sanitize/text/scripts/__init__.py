"""Free text in scripts other than Latin: letters, segmentation, vocabulary, dates, numbers and names."""
