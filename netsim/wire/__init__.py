"""From payload to bytes and back: msgpack, packed integers, and the registry of coded types."""
