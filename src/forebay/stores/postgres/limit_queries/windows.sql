-- Arguments: limit. Reply: the logs of its windows as JSON, their entries in hexadecimal.
SELECT json_agg(json_build_array(name, encode(entries, 'hex'))) FROM forebay_limit_windows WHERE limit_id = $1::bigint
