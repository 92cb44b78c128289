"""What several studies share: settings, links, tasks of learning, and what is measured of them."""
