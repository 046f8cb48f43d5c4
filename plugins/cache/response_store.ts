/**
 * Stored responses of one worker, by host and path and then by the request fields that select them. The total
 * of their bytes is bounded; the response that was used longest ago leaves first.
 *
 * @module
 */

import type { Bytes, Headers, HttpRequest } from "../../src/plugin/api.ts";
import type { Storable } from "./cache_control.ts";

/** A request, as far as it decides which response it may have. */
export interface CacheRequest {
  readonly request: HttpRequest;
  /** The SPIFFE id of the caller; `""`: it showed no certificate. */
  readonly source: string;
  readonly hasCredentials: boolean;
}

export interface StoredResponse extends Storable {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Bytes;
  /** Monotonic. */
  readonly storedAtMs: number;
  readonly source: string;
  /** Values of the fields that select it. */
  readonly selection: string;
  /** A request for its successor is under way. */
  isRenewed: boolean;
}

/**
 * Applications take URLs and methods from these, though they belong to no cache key. Here they do, so that a
 * caller who sends one changes no other caller's response.
 */
const KEY_FIELDS = [
  "forwarded",
  "front-end-https",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-prefix",
  "x-forwarded-proto",
  "x-forwarded-scheme",
  "x-forwarded-server",
  "x-forwarded-ssl",
  "x-host",
  "x-http-method",
  "x-http-method-override",
  "x-method-override",
  "x-original-host",
  "x-original-url",
  "x-rewrite-url",
];
const MAX_VARIANTS = 32;
/** The memory of an entry besides its texts and its body. */
const ENTRY_BYTES = 1_024;

export function keyOf({ authority, path }: HttpRequest): string {
  return `${authority}\0${path}`;
}

/** The values of the request's fields that select a response, with the names in `vary`. */
export function selectionOf({ scheme, headers }: HttpRequest, vary: readonly string[]): string {
  let text = scheme;
  for (const name of KEY_FIELDS) {
    if (headers.get(name) !== undefined) text += `\0${name}\0${headers.all(name).join("\n")}`;
  }
  for (const name of vary) text += `\0${name}\0${headers.all(name).join("\n")}`;
  return text;
}

/** A request whose response may be stored. */
export interface RecordingTicket {
  readonly key: string;
  /** The resource changed after the request was sent. */
  isOutdated: boolean;
  bytes: number;
}

export class ResponseStore {
  readonly #limitBytes: number;
  readonly #variants = new Map<string, StoredResponse[]>();
  /** In the order of use. */
  readonly #used = new Map<StoredResponse, { readonly key: string; readonly bytes: number }>();
  readonly #tickets = new Map<string, Set<RecordingTicket>>();
  #recordingBytes = 0;
  bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get size(): number {
    return this.#used.size;
  }

  find({ request, source, hasCredentials }: CacheRequest): StoredResponse | undefined {
    const found = this.#variants.get(keyOf(request))?.find((stored) =>
      (stored.isPublic || (!hasCredentials && stored.source === source)) &&
      stored.selection === selectionOf(request, stored.vary)
    );
    const place = found && this.#used.get(found);
    if (!place) return undefined;
    this.#used.delete(found);
    this.#used.set(found, place);
    return found;
  }

  /** Replaces the response with the same selection. */
  put(key: string, stored: StoredResponse): void {
    const bytes = bytesOf(key, stored);
    if (bytes > this.#limitBytes) return;
    const all = this.#variants.get(key) ?? [];
    const old =
      all.find((other) =>
        other.selection === stored.selection && other.isPublic === stored.isPublic &&
        other.source === stored.source
      ) ?? (all.length >= MAX_VARIANTS ? all[0] : undefined);
    if (old) this.remove(old);
    for (const oldest of this.#used.keys()) {
      if (this.bytes + bytes <= this.#limitBytes) break;
      this.remove(oldest);
    }
    const left = this.#variants.get(key);
    if (left) left.push(stored);
    else this.#variants.set(key, [stored]);
    this.#used.set(stored, { key, bytes });
    this.bytes += bytes;
  }

  remove(stored: StoredResponse): void {
    const place = this.#used.get(stored);
    if (!place) return;
    const { key, bytes } = place;
    this.#used.delete(stored);
    this.bytes -= bytes;
    const left = this.#variants.get(key)?.filter((other) => other !== stored) ?? [];
    if (left.length > 0) this.#variants.set(key, left);
    else this.#variants.delete(key);
  }

  /** The resource changed: its responses go, and those under way are not stored. */
  invalidate(key: string): void {
    for (const stored of this.#variants.get(key) ?? []) this.remove(stored);
    for (const ticket of this.#tickets.get(key) ?? []) ticket.isOutdated = true;
  }

  begin(key: string): RecordingTicket {
    const ticket = { key, isOutdated: false, bytes: 0 };
    const all = this.#tickets.get(key);
    if (all) all.add(ticket);
    else this.#tickets.set(key, new Set([ticket]));
    return ticket;
  }

  /** False: responses that are being recorded take too much memory for another chunk. */
  grow(ticket: RecordingTicket, bytes: number): boolean {
    if (this.#recordingBytes + bytes > this.#limitBytes / 2) return false;
    ticket.bytes += bytes;
    this.#recordingBytes += bytes;
    return true;
  }

  /** May be called again. */
  end(ticket: RecordingTicket): void {
    const all = this.#tickets.get(ticket.key);
    all?.delete(ticket);
    if (all?.size === 0) this.#tickets.delete(ticket.key);
    this.#recordingBytes -= ticket.bytes;
    ticket.bytes = 0;
  }

  clear(): void {
    for (const stored of [...this.#used.keys()]) this.remove(stored);
  }
}

function bytesOf(key: string, { headers, body, selection, source }: StoredResponse): number {
  let chars = key.length + selection.length + source.length;
  for (const [name, value] of headers) chars += name.length + value.length;
  // A character may take two bytes.
  return ENTRY_BYTES + 2 * chars + body.length;
}
