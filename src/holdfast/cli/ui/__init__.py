"""What commands share on a terminal: columns, colours, times, progress, questions."""
