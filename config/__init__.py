"""One typed table of every setting the broker obeys, and the layers its values come from."""
