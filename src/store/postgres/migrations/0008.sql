-- Finding events by what went wrong. A text is found by its parts of three bytes; nothing but the server itself is
-- needed. Events that never failed are in none of these indexes, and one that is in hand is not in the one of parts.

CREATE FUNCTION redrive.text_parts(value text) RETURNS bytea[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT pg_catalog.array_agg(DISTINCT pg_catalog.substr(bytes, at, 3))
    FROM (SELECT pg_catalog.convert_to(pg_catalog.lower(value), 'UTF8') AS bytes) AS lowered,
        pg_catalog.generate_series(1, pg_catalog.octet_length(bytes) - 2) AS at
$$;
CREATE INDEX event_error_parts ON redrive.events USING gin (redrive.text_parts(reason))
    WHERE pg_catalog."left"(reason, 7) = 'retry: ' AND state <> 1;
CREATE INDEX event_errors ON redrive.events (id) WHERE pg_catalog."left"(reason, 7) = 'retry: ';
CREATE INDEX event_attempts ON redrive.events (id) WHERE attempts > 0;
-- The letters of ASCII in lower case, whatever else the bytes are.
CREATE FUNCTION redrive.lowered(value bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT pg_catalog.decode(pg_catalog.lower(pg_catalog.encode(value, 'escape')), 'escape')
$$;
