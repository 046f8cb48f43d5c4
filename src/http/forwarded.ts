/**
 * The forwarding fields of a request. Consul configures its proxies to trust the proxy before them (Envoy's
 * `use_remote_address: false`): `X-Forwarded-For` and `-Host` pass unchanged, `-Proto` is added if it is
 * missing. Fields that control a proxy are removed from every request, because no client counts as
 * internal.
 *
 * @module
 */

import { isVouchedAlias } from "./field_names.ts";
import {
  addField,
  FIELD,
  fieldOf,
  type Fields,
  removeField,
  type RequestHead,
  setField,
} from "./head.ts";

/** Fields that control Envoy, or that Envoy sets for the application; a client's own are removed. */
const CONTROL: ReadonlySet<string> = new Set(
  [
    "x-envoy-decorator-operation x-envoy-expected-rq-timeout-ms x-envoy-force-trace",
    "x-envoy-hedge-on-per-try-timeout x-envoy-internal x-envoy-ip-tags x-envoy-max-retries",
    "x-envoy-original-path x-envoy-original-url x-envoy-retriable-header-names",
    "x-envoy-retriable-status-codes x-envoy-retry-grpc-on x-envoy-retry-on",
    "x-envoy-upstream-alt-stat-name x-envoy-upstream-rq-per-try-timeout-ms",
    "x-envoy-upstream-rq-timeout-alt-response x-envoy-upstream-rq-timeout-ms",
  ].join(" ").split(" "),
);

/** All names here begin like this, and so do their aliases. */
const X = 0x78;

/** Applied once to each incoming request. `secure`: it came over TLS. */
export function forwardRequest(head: RequestHead, secure: boolean): void {
  const { fields } = head;
  removeUntrusted(fields);
  const proto = fieldOf(fields, "x-forwarded-proto");
  const ours = secure ? "https" : "http";
  if (proto === undefined) addField(fields, "x-forwarded-proto", ours);
  if (head.scheme === "") head.scheme = proto === "http" || proto === "https" ? proto : ours;
}

function removeUntrusted(fields: Fields): void {
  let referers = 0;
  for (let i = fields.length - FIELD; i >= 0; i -= FIELD) {
    const name = fields[i] ?? "";
    switch (name) {
      case "te":
        // The only coding that concerns more than one hop; gRPC requires it.
        if (hasToken(fields[i + 1] ?? "", "trailers")) fields[i + 1] = "trailers";
        else fields.splice(i, FIELD);
        break;
      case "referer":
        referers++;
        if (!REFERER.test(fields[i + 1] ?? "")) fields.splice(i, FIELD);
        break;
      default:
        if (name.charCodeAt(0) === X && (CONTROL.has(name) || isVouchedAlias(name))) {
          fields.splice(i, FIELD);
        }
    }
  }
  if (referers > 1) removeField(fields, "referer");
}

/**
 * An address without user and fragment, or a path (RFC 9110 10.1.3). A text with a colon before its first
 * slash, and no `//` after the colon, is neither.
 */
const REFERER = /^(?:[a-z][a-z0-9+.-]*:\/\/[^\s#@/?]+(?:[/?][^\s#]*)?|[^\s#:/]*(?:\/[^\s#]*)?)$/i;

function hasToken(value: string, token: string): boolean {
  return value === token ||
    value.split(",").some((item) => item.trim().toLowerCase().split(";")[0] === token);
}

/** Ids made at a time: one call for random bytes and one text for all of them. */
const POOL = 128;
const ID_BYTES = 16;
const ID_CHARS = 36;

/** Fills with random bytes that cannot be predicted. */
export type RandomFill = (bytes: Uint8Array<ArrayBuffer>) => void;

const systemFill: RandomFill = (bytes) => {
  crypto.getRandomValues(bytes);
};

/** Makes version 4 UUIDs (RFC 9562 5.4), as Envoy does. */
export class RequestIds {
  readonly #fill: RandomFill;
  readonly #random = new Uint8Array(POOL * ID_BYTES);
  readonly #characters = new Uint8Array(POOL * ID_CHARS);
  readonly #decoder = new TextDecoder("latin1");
  #pool = "";
  #at = 0;

  constructor(fill: RandomFill = systemFill) {
    this.#fill = fill;
  }

  next(): string {
    if (this.#at >= this.#pool.length) this.#refill();
    const from = this.#at;
    this.#at = from + ID_CHARS;
    return this.#pool.slice(from, this.#at);
  }

  /** The id of a request; adds one where it has none. */
  ensure(fields: Fields): string {
    const given = fieldOf(fields, "x-request-id");
    if (given) return given;
    const id = this.next();
    setField(fields, "x-request-id", id);
    return id;
  }

  #refill(): void {
    const random = this.#random;
    const characters = this.#characters;
    this.#fill(random);
    let to = 0;
    for (let i = 0; i < random.length; i++) {
      const place = i % ID_BYTES;
      let byte = random[i] ?? 0;
      // Version and variant.
      if (place === 6) byte = (byte & 0x0f) | 0x40;
      else if (place === 8) byte = (byte & 0x3f) | 0x80;
      if (place === 4 || place === 6 || place === 8 || place === 10) characters[to++] = 0x2d;
      characters[to++] = HEX.charCodeAt(byte >> 4);
      characters[to++] = HEX.charCodeAt(byte & 0x0f);
    }
    this.#pool = this.#decoder.decode(characters);
    this.#at = 0;
  }
}

const HEX = "0123456789abcdef";
