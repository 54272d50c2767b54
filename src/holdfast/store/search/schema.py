"""The tables of the full-text index. Another version of them means another index.

A document's id is its session's number and its place in that session, so that those of a session
are one range. ``texts`` keeps no texts, only where their words are; ``facets`` are the numbers of
names, written ``n1``. ``upto``, ``crc`` and ``tail`` tell how much of a journal was read, and if
that is still what it was; ``memory`` is the reader's. ``waste`` counts documents that are gone.
"""

from __future__ import annotations

VERSION = 2
DOCUMENT_BITS = 32
TABLES = ("sessions", "documents", "names", "activity", "waste", "texts")

SCHEMA = """
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        fingerprint BLOB NOT NULL DEFAULT x'',
        files TEXT NOT NULL,
        inode INTEGER NOT NULL DEFAULT 0,
        upto INTEGER NOT NULL DEFAULT 0,
        crc INTEGER NOT NULL DEFAULT 0,
        tail BLOB NOT NULL DEFAULT x'',
        documents INTEGER NOT NULL DEFAULT 0,
        updated TEXT NOT NULL DEFAULT '',
        memory BLOB NOT NULL,
        facts BLOB
    );
    CREATE INDEX fingerprints ON sessions (id, fingerprint);
    CREATE INDEX newest ON sessions (updated, id);
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        file INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        length INTEGER NOT NULL,
        at TEXT NOT NULL,
        tool INTEGER,
        model INTEGER
    );
    CREATE TABLE names (
        number INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        name BLOB NOT NULL,
        UNIQUE (kind, name)
    );
    CREATE TABLE activity (
        session INTEGER NOT NULL,
        at TEXT NOT NULL,
        model INTEGER NOT NULL,
        requests NOT NULL,
        input NOT NULL,
        output NOT NULL,
        cache_read NOT NULL,
        cache_write NOT NULL,
        cost_usd NOT NULL,
        unpriced NOT NULL,
        messages NOT NULL,
        prompts NOT NULL,
        turns NOT NULL,
        PRIMARY KEY (session, at, model)
    ) WITHOUT ROWID;
    CREATE TABLE waste (documents INTEGER NOT NULL);
    INSERT INTO waste VALUES (0);
    CREATE VIRTUAL TABLE texts USING fts5 (
        text, facets, content = '', tokenize = 'unicode61 remove_diacritics 0'
    );
"""
