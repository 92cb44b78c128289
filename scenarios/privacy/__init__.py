"""What each algorithm gives away: model bits, raw-data bits, samples others read."""
