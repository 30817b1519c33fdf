-- All pauses, also those that are over. Reply: lane, at, until or NULL, note.
SELECT lane, at, until, note FROM forebay_pauses
