"""Sessions over journals: what a session is, where it is kept, how it is found again.

contract    what every backend offers, and the values it hands out
local       sessions as folders of files: made, opened, closed
collection  all of them, without opening any: listed, searched, deleted
opening     from a session's folder to an open session, locked and repaired or as it is
home        where those folders are; how a session is found, and made
session     one open session: append, stream, history, follow
reading     what it shows of itself: state, branch, messages
recorder    its writing side: bodies in, durable entries and a published state out
acceptance  how bodies come in: in order, each once
listeners   who is told of durable entries
resuming    from a journal to the state it has reached
fold        entries to state, the only place that knows what an entry means
branch      the messages of the current branch, read from the end
streams     text that is being streamed, and what a crash left of it
follower    entries and live text as they come, across processes and compactions
rewrite     copies of a journal with lines left out
compaction  the journal of an open session written anew, in its place
fork        a new session from one branch of another
blobs       payloads too large for a line
index       the cache behind listing; can be deleted at any time
search      text in sessions, by reading them
project     which project a folder belongs to
trash       deletion that can be undone
cleanup     what has become old, or was never finished
verify      what is wrong with a session, without changing it
"""
