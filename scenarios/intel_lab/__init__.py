"""Fifty-three motes on the reception that was measured in the Intel Berkeley Research Lab."""
