/**
 * One limit: it assigns requests to buckets, and refuses a request whose bucket is empty.
 *
 * @module
 */

import * as v from "valibot";
import type { Connection, Exchange, Host, HttpRequest, Refusal } from "../../src/plugin/api.ts";
import { VERIFIED_CLAIMS } from "../../src/plugin/verified_claims.ts";
import { BucketTable, cellsFor, type KeyHash, type Rate, rateOf } from "./bucket_table.ts";

const Header = v.pipe(v.string(), v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no header's name"));
const Text = v.pipe(v.string(), v.nonEmpty());
const MAX_FILL_S = 86_400;

const Fields = v.strictObject({
  requestsPerSecond: v.pipe(v.number(), v.gtValue(0), v.maxValue(1_000_000)),
  burst: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000_000))),
  by: v.optional(v.union([
    v.picklist(["source", "remote_address"]),
    v.strictObject({ header: Header }),
    v.strictObject({
      claim: v.strictObject({ provider: Text, path: v.pipe(v.array(Text), v.minLength(1)) }),
    }),
  ])),
});
type Fields = v.InferOutput<typeof Fields>;
interface ClaimAt {
  readonly provider: string;
  readonly path: readonly string[];
}

export const Limits = v.pipe(
  v.array(v.pipe(
    Fields,
    v.check(
      (limit) => burstOf(limit) / limit.requestsPerSecond <= MAX_FILL_S,
      "the burst takes more than a day to come again",
    ),
  )),
  v.maxLength(16),
);
export type Limits = v.InferOutput<typeof Limits>;

type By = "all" | "source" | "remote_address" | "header" | "claim";

/** Remembered buckets of each kind; under `all` each limit has one bucket. */
const SLOTS: Readonly<Record<By, number>> = {
  all: 1_024,
  source: 8_192,
  remote_address: 8_192,
  header: 8_192,
  claim: 8_192,
};

type Tables = Readonly<Record<By, BucketTable>>;

export async function tablesOf(host: Host): Promise<Tables> {
  const forgotten = host.stats.counter("forgotten", {
    help: "Buckets dropped to make room for another key before they were full again",
  });
  const table = async (by: By) =>
    new BucketTable(await host.sharedCells(by, cellsFor(SLOTS[by]), { survivesUpgrade: true }), {
      random: () => host.random(),
      forgot: () => forgotten.add(1),
    });
  return {
    all: await table("all"),
    source: await table("source"),
    remote_address: await table("remote_address"),
    header: await table("header"),
    claim: await table("claim"),
  };
}

interface LimitContext {
  readonly host: Host;
  readonly tables: Tables;
  /** The listener or route of the limits; each has its own buckets. */
  readonly at: string;
}

/** Limits by caller come first: a caller over its own limit takes no token of the common one. */
export function compiled(limits: Limits, context: LimitContext): Limit[] {
  return limits.map((limit) => new Limit(limit, context))
    .toSorted((one, other) => Number(one.by === "all") - Number(other.by === "all"));
}

export class Limit {
  readonly by: By;
  /** Made once, so that a flood costs no more. */
  readonly #refusal: Refusal;
  readonly #refused: () => void;
  readonly #table: BucketTable;
  readonly #rate: Rate;
  readonly #header: string;
  readonly #claim: ClaimAt | undefined;
  /** Seed of the keys of this limit. */
  readonly #of: number;
  readonly #own: KeyHash;
  /** Keys of callers, computed once for each connection. */
  readonly #hashes = new WeakMap<Connection, KeyHash>();

  constructor(limit: Fields, { host, tables, at }: LimitContext) {
    const { requestsPerSecond, by = "all" } = limit;
    this.#header = typeof by === "object" && "header" in by ? by.header.toLowerCase() : "";
    this.#claim = typeof by === "object" && "claim" in by ? by.claim : undefined;
    this.by = typeof by !== "object" ? by : this.#claim ? "claim" : "header";
    const what = this.#claim ? claimText(this.#claim) : this.#header;
    this.#table = tables[this.by];
    this.#rate = rateOf(requestsPerSecond, burstOf(limit));
    // A limit with changed numbers begins with full buckets; an unchanged one keeps its buckets.
    const name = [host.listener, at, what, requestsPerSecond, burstOf(limit)].join("\0");
    this.#own = { ...this.#table.hash(0, name) };
    this.#of = this.#own.b;
    const whose = this.by === "all" ? "" : ` of one ${what || this.by}`;
    const reason = `more than ${requestsPerSecond} requests a second${whose}`;
    this.#refusal = host.refuse("rate_limited", reason);
    const refused = host.stats.counter("refused", {
      help: "Requests refused because they were over the rate limit",
      labels: { by: ["all", "source", "remote_address", "header", "claim"] },
    });
    const labels = { by: this.by };
    this.#refused = () => refused.add(1, labels);
  }

  take(request: HttpRequest, exchange: Exchange, nowMs: number): boolean {
    return this.#table.take(this.#key(request, exchange), this.#rate, nowMs);
  }

  /** Counts the refusal as well. */
  get refusal(): Refusal {
    this.#refused();
    return this.#refusal;
  }

  #key(request: HttpRequest, exchange: Exchange): KeyHash {
    if (this.by === "all") return this.#own;
    if (this.by === "header") {
      // All requests without the header share one bucket.
      return this.#table.hash(this.#of, request.headers.get(this.#header) ?? "");
    }
    if (this.#claim) return this.#table.hash(this.#of, claimOf(exchange, this.#claim));
    const { connection } = exchange;
    let hash = this.#hashes.get(connection);
    if (!hash) this.#hashes.set(connection, hash = { ...this.#hashOf(connection) });
    return hash;
  }

  #hashOf({ source, remoteAddress }: Connection): KeyHash {
    if (this.by === "source") return this.#table.hash(this.#of, source?.uri ?? "");
    const port = remoteAddress.lastIndexOf(":");
    return this.#table.hash(this.#of, port < 0 ? remoteAddress : remoteAddress.slice(0, port));
  }
}

/** `""`: the claim is absent, or neither text nor number; all such requests share one bucket. */
function claimOf(exchange: Exchange, { provider, path }: ClaimAt): string {
  let at: unknown = exchange.get(VERIFIED_CLAIMS)?.get(provider);
  for (const name of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return "";
    at = (at as Readonly<Record<string, unknown>>)[name];
  }
  return typeof at === "string" || typeof at === "number" ? String(at) : "";
}

function claimText({ provider, path }: ClaimAt): string {
  return `${path.join(".")} of ${provider}`;
}

function burstOf({ requestsPerSecond, burst }: Fields): number {
  return burst ?? Math.ceil(requestsPerSecond);
}
