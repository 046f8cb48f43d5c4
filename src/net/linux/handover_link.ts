/**
 * A private channel between two processes of one user, on this machine: messages, and descriptors with them.
 * Its name is abstract and random, so that no other user can take it first; each end checks the user of the
 * other one, as the kernel knows it. Only on Bun and Linux.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import process from "node:process";
import { type Clock, messageOf, type Timer } from "../../base/mod.ts";
import { socketAddress } from "../datagrams.ts";
import { cLibrary } from "./c_library.ts";
import {
  closeDescriptor,
  DESCRIPTORS_PER_MESSAGE,
  duplicate,
  type PeerProcess,
  peerProcess,
  receiveDescriptors,
  sendDescriptors,
} from "./descriptors.ts";

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0o2000000;
const SOCK_NONBLOCK = 0o4000;
/** Bytes of one message; a longer one ends the link. */
const MESSAGE_LIMIT_BYTES = 32 * 1_048_576;
/** Pauses between two looks at a link. */
const SHORTEST_MS = 2;
const LONGEST_MS = 20;
/** Names that are tried: another user may have taken some to hide ours among them. */
const CANDIDATES = 10_000;

export interface LinkEvents {
  /** The receiver owns the descriptors. */
  onMessage(message: unknown, descriptors: readonly number[]): void;
  /** Last event: the other end is gone, or broke the rules. Not after our own `close`. */
  onEnd(): void;
}

interface Outgoing {
  bytes: Uint8Array;
  /** Sent with the first byte. */
  descriptors: readonly number[];
}

/** One end of the channel. */
export class HandoverLink {
  readonly peer: PeerProcess;
  events: LinkEvents = { onMessage: (_, all) => all.forEach(closeDescriptor), onEnd() {} };
  readonly #fd: number;
  readonly #clock: Clock;
  #chunks: Uint8Array[] = [];
  #size = 0;
  #descriptors: number[] = [];
  readonly #outgoing: Outgoing[] = [];
  #reading: Timer | undefined;
  #writing: Timer | undefined;
  #delayMs = SHORTEST_MS;
  #closed = false;

  /** Takes `fd`. */
  constructor(fd: number, peer: PeerProcess, clock: Clock) {
    this.#fd = fd;
    this.peer = peer;
    this.#clock = clock;
    // Not at once: the owner sets its events first.
    this.#reading = clock.after(0, () => this.#read());
  }

  /** The descriptors, at most {@link DESCRIPTORS_PER_MESSAGE}, are duplicated: they stay the caller's. */
  send(message: object, descriptors: readonly number[] = []): void {
    const copies = descriptors.map(duplicate).filter((fd) => fd !== undefined);
    if (this.#closed || copies.length < descriptors.length) {
      copies.forEach(closeDescriptor);
      return this.#end();
    }
    const text = JSON.stringify({ ...message, descriptors: descriptors.length });
    this.#outgoing.push({ bytes: Buffer.from(`${text}\n`), descriptors: copies });
    this.#write();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#reading?.cancel();
    this.#writing?.cancel();
    for (const { descriptors } of this.#outgoing) descriptors.forEach(closeDescriptor);
    this.#descriptors.forEach(closeDescriptor);
    closeDescriptor(this.#fd);
  }

  #end(): void {
    if (this.#closed) return;
    this.close();
    this.events.onEnd();
  }

  #write(): void {
    this.#writing?.cancel();
    for (let next = this.#outgoing[0]; next; next = this.#outgoing[0]) {
      const sent = sendDescriptors(this.#fd, next.bytes, next.descriptors);
      if (sent === "failed") return this.#end();
      if (sent === "full") {
        this.#writing = this.#clock.after(SHORTEST_MS, () => this.#write());
        return;
      }
      next.descriptors.forEach(closeDescriptor);
      next.descriptors = [];
      next.bytes = next.bytes.subarray(sent);
      if (next.bytes.length === 0) this.#outgoing.shift();
    }
  }

  #read(): void {
    for (;;) {
      if (this.#closed) return;
      const received = receiveDescriptors(this.#fd);
      if (received.kind === "ended") return this.#end();
      if (received.kind === "nothing") break;
      this.#delayMs = SHORTEST_MS;
      this.#descriptors.push(...received.descriptors);
      this.#take(received.data);
    }
    this.#reading = this.#clock.after(this.#delayMs, () => this.#read());
    this.#delayMs = Math.min(this.#delayMs * 2, LONGEST_MS);
  }

  #take(data: Uint8Array): void {
    let rest = data;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const text = Buffer.concat([...this.#chunks, rest.subarray(0, end)]).toString();
      rest = rest.subarray(end + 1);
      this.#chunks = [];
      this.#size = 0;
      this.#deliver(text);
      if (this.#closed) return;
    }
    if (rest.length === 0) return;
    this.#chunks.push(rest);
    this.#size += rest.length;
    if (this.#size > MESSAGE_LIMIT_BYTES) this.#end();
  }

  #deliver(text: string): void {
    let message: { readonly descriptors?: unknown };
    try {
      message = JSON.parse(text);
    } catch {
      // Not one of ours.
      return this.#end();
    }
    const count = Number(message?.descriptors ?? 0);
    const isFit = count >= 0 && count <= DESCRIPTORS_PER_MESSAGE &&
      count <= this.#descriptors.length;
    if (!isFit) return this.#end();
    this.events.onMessage(message, this.#descriptors.splice(0, count));
  }
}

/** The part of a channel's name that is the same for all processes of this user with the same `purpose`. */
function nameOf(purpose: string): string {
  const hash = createHash("sha256").update(purpose).digest("hex").slice(0, 32);
  return `postern/${process.getuid?.() ?? -1}/${hash}/`;
}

/** Waits for the other end. `undefined`: this runtime or system cannot. */
export function listenForLink(
  purpose: string,
  { clock, onLink, onError }: {
    readonly clock: Clock;
    readonly onLink: (link: HandoverLink) => void;
    readonly onError: (reason: string) => void;
  },
): { close(): void } | undefined {
  if (!cLibrary()) return undefined;
  const server = createServer((socket) => {
    const link = linkOn(socket, clock);
    if (link) onLink(link);
  });
  server.on("error", (error) => onError(messageOf(error)));
  server.listen(`\0${nameOf(purpose)}${randomBytes(12).toString("hex")}`);
  server.unref();
  return { close: () => void server.close() };
}

/** The runtime reads descriptors away: the link has a descriptor of its own. */
function linkOn(socket: Socket, clock: Clock): HandoverLink | undefined {
  socket.pause();
  socket.on("error", () => {});
  const { fd = -1 } = (socket as { readonly _handle?: { readonly fd?: number } })._handle ?? {};
  const peer = ownPeer(fd);
  const own = peer && duplicate(fd);
  socket.destroy();
  return peer && own !== undefined ? new HandoverLink(own, peer, clock) : undefined;
}

/** The other end, if it is a process of this user that this process can see. */
function ownPeer(fd: number): PeerProcess | undefined {
  const peer = peerProcess(fd);
  return peer && peer.pid > 0 && peer.uid === process.getuid?.() ? peer : undefined;
}

/** The processes of this user that wait for a link. */
export function waitingProcesses(purpose: string): readonly number[] {
  return [...connected(purpose)].map(({ fd, peer }) => {
    closeDescriptor(fd);
    return peer.pid;
  });
}

/** Connects to a process of this user that waits; `undefined`: none does. */
export function openLink(purpose: string, clock: Clock): HandoverLink | undefined {
  for (const { fd, peer } of connected(purpose)) return new HandoverLink(fd, peer, clock);
  return undefined;
}

/** Connections to other processes of this user; the caller owns each descriptor. */
function* connected(
  purpose: string,
): Iterable<{ readonly fd: number; readonly peer: PeerProcess }> {
  const library = cLibrary();
  if (!library) return;
  for (const name of waiting(purpose)) {
    const address = socketAddress(`@${name}`);
    const fd = library.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!address || fd < 0) continue;
    const peer = library.connect(fd, address, address.length) === 0 ? ownPeer(fd) : undefined;
    if (peer && peer.pid !== process.pid) yield { fd, peer };
    else library.close(fd);
  }
}

/** This runtime can hand descriptors over. */
export function canHandOver(): boolean {
  return cLibrary() !== undefined;
}

/** Some process waits for a link with this purpose. It may be another user's. */
export function hasLink(purpose: string): boolean {
  return cLibrary() !== undefined && waiting(purpose).length > 0;
}

function waiting(purpose: string): readonly string[] {
  const prefix = `@${nameOf(purpose)}`;
  let text: string;
  try {
    text = readFileSync("/proc/self/net/unix", "utf8");
  } catch {
    // No /proc: nothing can be found.
    return [];
  }
  const names = text.split("\n").map((line) => line.slice(line.indexOf("@")))
    .filter((name) => name.startsWith(prefix));
  // Accepted sockets have the name of their listener.
  return [...new Set(names)].slice(0, CANDIDATES).map((name) => name.slice(1));
}
