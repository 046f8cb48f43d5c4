/**
 * Joins what is written to a stream in one turn, so that it leaves with one system call and over TLS in
 * one record: a pipelined batch is answered at once. A turn lasts until the runtime's callback that runs
 * has returned, and what was queued by then has run; outside callbacks until that is so. Both are the
 * end of a microtask, which costs nothing where nothing is joined.
 *
 * @module
 */

/** Sent on when they are full, whatever else is to come. */
const JOINED_BYTES = 64 * 1024;
/** A chunk as large as that costs more to copy than to send; nothing was joined before it. */
const LARGE_BYTES = 16 * 1024;
/** Streams that may join at a time; others send what they are given by itself. */
const STREAMS = 16;

/** A stream that joins; one that has bytes waiting for the peer already must not. */
export interface JoiningStream {
  /** Belongs to this module. */
  joined: JoinedWrites | undefined;
  /** Sends the beginning of `bytes`, whose memory it may not keep. False: some of it has to wait. */
  send(bytes: Uint8Array, length: number): boolean;
}

/** What one stream has joined so far. */
export class JoinedWrites {
  readonly bytes = new Uint8Array(JOINED_BYTES);
  length = 0;
  stream: JoiningStream | undefined;
}

const free: JoinedWrites[] = [];
/** Of this turn, in the order of their first chunk. */
const open: JoinedWrites[] = [];

/** Whether a copy of `chunk` leaves with the turn. False: it is to be sent, after all before it. */
export function join(stream: JoiningStream, chunk: Uint8Array): boolean {
  const full = (stream.joined?.length ?? 0) + chunk.length > JOINED_BYTES;
  if (full && !flush(stream)) return false;
  if (!hasJoined(stream) && chunk.length >= LARGE_BYTES) return false;
  const joined = stream.joined ??= take(stream);
  if (!joined) return false;
  joined.bytes.set(chunk, joined.length);
  joined.length += chunk.length;
  return true;
}

export function hasJoined({ joined }: JoiningStream): boolean {
  return joined !== undefined && joined.length > 0;
}

/** Sends what was joined so far. False: some of it has to wait. */
export function flush(stream: JoiningStream): boolean {
  const { joined } = stream;
  if (!joined || joined.length === 0) return true;
  const { length } = joined;
  joined.length = 0;
  return stream.send(joined.bytes, length);
}

/** The stream broke: nothing of it is sent. */
export function drop({ joined }: JoiningStream): void {
  if (joined) joined.length = 0;
}

function take(stream: JoiningStream): JoinedWrites | undefined {
  if (open.length === STREAMS) return undefined;
  if (open.length === 0) queueMicrotask(endTurn);
  const joined = free.pop() ?? new JoinedWrites();
  joined.stream = stream;
  open.push(joined);
  return joined;
}

function endTurn(): void {
  // Sending may break a stream, and whoever is told may write to another.
  for (const joined of open) {
    const { stream } = joined;
    if (!stream) continue;
    flush(stream);
    joined.stream = stream.joined = undefined;
  }
  free.push(...open);
  open.length = 0;
}
