/** The caller's side of one request to a plugin under test: the real layers without a codec. @module */

import { type Deadlines, type ErrorCode, replyOf } from "../base/mod.ts";
import {
  addField,
  type ChildSpan,
  ExchangeRecord,
  type Fields,
  type RequestHead,
  type ResponseHead,
  sendReply,
  UNKNOWN_LENGTH,
} from "../http/mod.ts";
import { type Connection, type Generation, HeaderList } from "../plugin/mod.ts";
import {
  type Context,
  ExchangeValue,
  PluginLayers,
  type PluginResponseSink,
  type PooledConnection,
} from "../proxy/mod.ts";
import type { Answer, RequestInit, SeenSpan } from "./api.ts";
import type { FakeClock } from "./clock.ts";
import { bytesOf, joined, type ScriptedUpstream, textOf } from "./scripted_upstream.ts";

/** Interval of the check for stuck plugins, as in a proxy. */
const TICK_MS = 1_000;

export class MountedRequest implements PluginResponseSink {
  readonly #request: RequestHead;
  readonly #chunks: Uint8Array[];
  readonly #record: ExchangeRecord;
  readonly #layers: PluginLayers;
  readonly #clock: FakeClock;
  readonly #spans: SeenSpan[];
  readonly #answer = Promise.withResolvers<Answer>();
  readonly answer = this.#answer.promise;
  #head: ResponseHead | undefined;
  readonly #body: Uint8Array[] = [];
  #failure: Answer["failure"] = null;
  #wantsBody = false;
  #isSent: boolean;
  #isOver = false;
  #timer: { cancel(): void } | undefined;

  constructor(init: RequestInit, setup: {
    readonly generation: Generation;
    readonly upstream: ScriptedUpstream;
    /** By the names that a plugin gives, joined by slashes. */
    readonly targets: Readonly<Record<string, ScriptedUpstream>>;
    /** Takes the spans of the plugin at the end. */
    readonly spans: SeenSpan[];
    readonly clock: FakeClock;
    readonly connection: Connection;
    readonly id: string;
  }) {
    const { generation, upstream, targets, clock, connection, id } = setup;
    this.#spans = setup.spans;
    this.#clock = clock;
    this.#chunks = chunksOf(init.body);
    this.#isSent = this.#chunks.length === 0;
    const request = this.#request = headOf(init, this.#chunks, id);
    this.#record = new ExchangeRecord({ ...NO_FACTS, remote: connection.remoteAddress }, request, {
      wallMs: clock.now(),
      monotonicMs: clock.monotonic(),
    });
    this.#record.trace = { ...TRACE, events: [], now: () => clock.monotonic() };
    const outgoing = { request, endsWithHead: this.#isSent, remote: connection.remoteAddress };
    this.#layers = new PluginLayers(this, outgoing, {
      generation,
      route: {
        poolFor: () => upstream,
        poolAt({ upstream, service, subset, datacenter, id }) {
          const names = [upstream, service, subset, datacenter, id];
          const pool = targets[names.filter((name) => name !== undefined).join("/")];
          if (pool) return { kind: "pool", pool, hash: undefined };
          const known = Object.keys(targets).join(", ") || "no targets";
          return { kind: "none", reason: `is not there; the test has ${known}` };
        },
      },
      // The rest of a context concerns the health of picked endpoints; a script picks none.
      context: { deadlines: clock as Pick<Deadlines, "after"> } as Context,
      exchange: new ExchangeValue(this.#record, connection),
    });
    this.#tick();
    init.signal?.addEventListener("abort", () => this.#leave());
    this.#layers.start();
    if (init.signal?.aborted) this.#leave();
  }

  #tick(): void {
    this.#timer = this.#clock.after(TICK_MS, () => {
      const stuck = this.#layers.stuckFor(TICK_MS);
      if (stuck === undefined) this.#tick();
      else this.fail("plugin_failed", stuck);
    });
  }

  #leave(): void {
    this.#record.code = "downstream_reset";
    this.#failure = { code: "downstream_reset", reason: "the caller left" };
    this.#end(true);
  }

  #takeSpans(): void {
    const { trace, endAt } = this.#record;
    for (const child of trace?.children ?? []) {
      const durationMs = (child.endAt ?? endAt) - child.startedAt;
      this.#spans.push({ name: child.name, durationMs, attributes: attributesOf(child) });
    }
  }

  bodyWanted(): void {
    this.#wantsBody = true;
    // As from a socket: asynchronously.
    queueMicrotask(() => this.#send());
  }

  #send(): void {
    while (this.#wantsBody && !this.#isSent && !this.#isOver) {
      const chunk = this.#chunks.shift();
      if (chunk) {
        if (!this.#layers.send(chunk)) this.#wantsBody = false;
      } else {
        this.#isSent = true;
        this.#layers.end(undefined);
      }
    }
  }

  bodyHeld(): void {
    this.#wantsBody = false;
  }

  reached(connection: PooledConnection): void {
    this.#record.attempts++;
    this.#record.upstreamHost = connection.reached.host;
  }

  goesTo(): void {}
  answersItself(): void {}
  informed(): void {}

  responded(head: ResponseHead, ends: boolean): void {
    this.#head = head;
    this.#record.response = head;
    this.#record.status = head.status;
    if (ends) this.#end(false);
  }

  responseData(chunk: Uint8Array): void {
    this.#body.push(chunk);
  }

  responseEnd(): void {
    this.#end(false);
  }

  upstreamFailed(code: ErrorCode, reason: string): void {
    this.fail(code, reason);
  }

  fail(code: ErrorCode, reason: string, fields: Fields = []): void {
    if (this.#isOver) return;
    this.#record.code = code;
    this.#failure = { code, reason };
    if (!this.#head) {
      const server = {
        request: this.#request,
        respond: () => {},
        send: (chunk: Uint8Array) => this.#body.push(chunk) > 0,
        end: () => {},
      };
      const head = this.#head = sendReply(server, replyOf(code, reason), { fields });
      this.#record.status = head.status;
    }
    this.#end(true);
  }

  #end(isBroken: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.#layers.leave(isBroken);
    this.#record.endAt = this.#clock.monotonic();
    this.#layers.endExchange();
    this.#takeSpans();
    const { status, fields } = this.#head ?? { status: 0, fields: [] };
    this.#answer.resolve({
      status,
      headers: new HeaderList(fields),
      body: textOf(this.#body),
      bytes: joined(this.#body),
      failure: this.#failure,
    });
  }
}

const TRACE = {
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  spanId: "00f067aa0ba902b7",
  parentId: "",
  isSampled: true,
  listener: { direction: "inbound", name: "inbound", destination: "db" },
} as const;

const NO_FACTS = {
  id: 1,
  local: "",
  requestedServerName: "",
  tlsVersion: "",
  localUri: "",
  peer: undefined,
};

function attributesOf({ attributes }: ChildSpan): SeenSpan["attributes"] {
  const all: Record<string, string | number> = {};
  for (let at = 0; at < attributes.length; at += 2) {
    all[String(attributes[at])] = attributes[at + 1] ?? "";
  }
  return all;
}

function chunksOf(body: RequestInit["body"] = []): Uint8Array[] {
  const parts = typeof body === "string" || body instanceof Uint8Array ? [body] : body;
  return parts.map((part) => bytesOf(part)).filter(({ length }) => length > 0);
}

function headOf(init: RequestInit, chunks: readonly Uint8Array[], id: string): RequestHead {
  const { method = "GET", path = "/", authority = "db", headers = {}, body } = init;
  const fields: Fields = [];
  for (const [name, value] of Object.entries({ "x-request-id": id, ...headers })) {
    for (const one of typeof value === "string" ? [value] : value) {
      addField(fields, name.toLowerCase(), one);
    }
  }
  const length = Array.isArray(body) ? UNKNOWN_LENGTH : joined(chunks).length;
  return {
    method,
    scheme: "http",
    authority,
    path,
    fields,
    length,
    upgrade: "",
    saysLength: length > 0,
    expectsContinue: false,
    version: "HTTP/1.1",
  };
}
