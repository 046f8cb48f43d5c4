/**
 * Joins the writes to a stream in one turn, so that they leave with one system call and over TLS in one
 * record: a pipelined batch is answered at once. A turn lasts until the runtime's running callback has
 * returned and the microtasks queued by then have run. Its end is a microtask, which costs nothing where
 * nothing is joined.
 *
 * @module
 */

/** Joined bytes are sent when they are that many, in the middle of a turn, too. */
const JOINED_BYTES = 64 * 1024;
/** A chunk as large as that costs more to copy than to send; joined only after smaller ones. */
const LARGE_BYTES = 16 * 1024;
/** Streams that may join at a time; others send each chunk by itself. */
const STREAMS = 16;

/** A stream that joins its writes; it must not while bytes already wait for the peer. */
export interface JoiningStream {
  /** Set by this module only. */
  joined: JoinedWrites | undefined;
  /** Sends `length` bytes of `bytes` without keeping its memory. False: some have to wait. */
  send(bytes: Uint8Array, length: number): boolean;
}

export class JoinedWrites {
  readonly bytes = new Uint8Array(JOINED_BYTES);
  length = 0;
  stream: JoiningStream | undefined;
}

const free: JoinedWrites[] = [];
/** The joined writes of this turn, in the order of their first chunk. */
const open: JoinedWrites[] = [];

/** True: a copy of `chunk` leaves with the turn. False: the caller sends it; all before it was sent. */
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

/** Sends the bytes joined so far. False: some have to wait. */
export function flush(stream: JoiningStream): boolean {
  const { joined } = stream;
  if (!joined || joined.length === 0) return true;
  const { length } = joined;
  joined.length = 0;
  return stream.send(joined.bytes, length);
}

/** The stream broke: drops its joined bytes. */
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
  // Sending may break a stream, and its owner may then write to another.
  for (const joined of open) {
    const { stream } = joined;
    if (!stream) continue;
    flush(stream);
    joined.stream = stream.joined = undefined;
  }
  free.push(...open);
  open.length = 0;
}
