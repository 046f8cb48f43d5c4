/**
 * One plugin on a listener of its own, without sockets: a request goes in, a scripted response comes back,
 * and time stands still until it is moved.
 *
 * @module
 */

import { createLog, type LogRecord, Stats } from "../../src/base/mod.ts";
import { addField, type Fields, type RequestHead } from "../../src/http/mod.ts";
import type { Exchange, ExchangeSummary, Identity, Log } from "../../src/plugin/api.ts";
import {
  type AnyPlugin,
  Generation,
  MadeBody,
  Onion,
  PluginRequest,
  PluginResponse,
  SharedState,
} from "../../src/plugin/mod.ts";
import { FakeClock } from "./clock.ts";

type Values = Readonly<Record<string, string>>;
type Content = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;

export interface Ask {
  readonly method?: string;
  readonly scheme?: string;
  readonly authority?: string;
  readonly path?: string;
  readonly headers?: Values;
  readonly source?: string;
  readonly signal?: AbortSignal;
  /** The exchange is not over with its response, but when `end` is called. */
  readonly holdEnd?: (end: () => void) => void;
}

export interface Script {
  readonly status?: number;
  readonly headers?: Values;
  readonly body?: Content;
}

export interface Mounted {
  readonly clock: FakeClock;
  readonly lines: LogRecord[];
  /** What the application was asked. */
  readonly sent: PluginRequest[];
  ask(request?: Ask, script?: Script): PromiseLike<PluginResponse>;
  /** Sum of what it counted under that name, with any labels. */
  counted(name: string): number;
  close(): void;
}

export async function mountPlugin(
  definition: AnyPlugin,
  config: unknown,
  options: { readonly routeConfig?: unknown; readonly random?: () => number } = {},
): Promise<Mounted> {
  const { routeConfig, random = () => 0.5 } = options;
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const log = createLog({
    clock,
    write: (record) => lines.push(record),
    holder: { level: "debug" },
  });
  const stats = new Stats();
  const route = { name: "default", service: "db", match: null };
  const configs: Record<string, unknown> = {};
  if (routeConfig !== undefined) configs[definition.name] = routeConfig;
  const generation = await Generation.make({
    ...{ listener: "inbound", number: 1, carriesBytes: false },
    plugins: [{ definition, config, onFailure: "refuse", at: "plugins[0]" }],
    routes: [{ route, configs, at: "routes.default" }],
    lender: { log, stats, clock, random, shared: new SharedState() },
  });
  const sent: PluginRequest[] = [];
  return {
    ...{ clock, lines, sent },
    ask(request = {}, script = {}) {
      const { exchange, end } = exchangeOf(request, log);
      const onion = new Onion({
        exchange,
        guards: generation.guards,
        planOf: (asked) => generation.planOf(asked),
        sendOn(asked, { outcome }) {
          sent.push(asked);
          outcome.settle(responseOf(script));
        },
        limit: () => ({ cancel() {} }),
        idleTimeoutMs: undefined,
      });
      const outcome = onion.run(requestOf(request));
      const { holdEnd } = request;
      outcome.tell((response) => holdEnd ? holdEnd(() => end(response)) : end(response));
      return outcome;
    },
    counted: (name) =>
      stats.samples().filter((sample) => sample.name === `plugin_${definition.name}_${name}_total`)
        .reduce((sum, { value }) => sum + value, 0),
    close: () => generation.retire(),
  };
}

function fieldsOf(values: Values = {}): Fields {
  const fields: Fields = [];
  for (const [name, value] of Object.entries(values)) addField(fields, name, value);
  return fields;
}

function requestOf({ method = "GET", scheme = "", authority = "db", path = "/", headers }: Ask) {
  const head: RequestHead = {
    ...{ method, scheme, authority, path, upgrade: "", length: 0, saysLength: false },
    ...{ expectsContinue: false, version: "HTTP/1.1", fields: fieldsOf(headers) },
  };
  return new PluginRequest(head, null);
}

function responseOf({ status = 200, headers, body = "" }: Script): PluginResponse {
  const made = body === "" ? null : new MadeBody(body);
  const head = { status, length: made ? made.length ?? -1 : 0, fields: fieldsOf(headers) };
  return new PluginResponse(head, made, {
    endpoint: { address: "10.0.0.9:80" },
    failure: null,
  });
}

function exchangeOf({ source, signal = new AbortController().signal }: Ask, log: Log): {
  readonly exchange: Exchange;
  end(response: PluginResponse): void;
} {
  const state = new Map<unknown, unknown>();
  const callbacks: ((summary: ExchangeSummary) => void)[] = [];
  const exchange: Exchange = {
    ...{ id: "1", signal, log },
    connection: {
      ...{ listener: "inbound", direction: "inbound", remoteAddress: "10.0.0.7:40312" },
      source: source === undefined ? null : identityOf(source),
    },
    get: <T>(key: object) => state.get(key) as T | undefined,
    set: (key, value) => void state.set(key, value),
    onEnd: (callback) => void callbacks.push(callback),
  };
  return {
    exchange,
    end({ status, endpoint, failure }) {
      const summary = { status, code: failure?.code ?? "", attempts: 1, durationMs: 3, endpoint };
      for (const callback of callbacks) callback(summary);
    },
  };
}

export function identityOf(service: string): Identity {
  return {
    ...{ uri: `spiffe://mesh.consul/ns/default/dc/dc1/svc/${service}` },
    ...{ trustDomain: "mesh.consul", partition: "default", namespace: "default" },
    ...{ datacenter: "dc1", service },
  };
}
