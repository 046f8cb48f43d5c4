/** Runs a plugin in a test with the code of the proxy, without sockets and files. @module */

import { createLog, type LogRecord, Stats } from "../base/mod.ts";
import {
  type AnyPlugin,
  type Callees,
  type Connection,
  Generation,
  type HostDeps,
  type HostFiles,
  type Identity,
  SharedState,
  whyNoPlugin,
} from "../plugin/mod.ts";
import { type Context, OutgoingCall } from "../proxy/mod.ts";
import type * as api from "./api.ts";
import apiText from "./api.ts" with { type: "text" };
import type { Answer, Connected, MountOptions, RequestInit } from "./api.ts";
import { MountedRequest } from "./mounted_request.ts";
import { FakeClock, settle } from "./clock.ts";
import {
  bytesOf,
  hold,
  ok,
  reset,
  ScriptedUpstream,
  status,
  unreachable,
} from "./scripted_upstream.ts";

const LISTENER = "inbound";

export async function mount(definition: unknown, options: MountOptions = {}): Promise<Mounted> {
  const fault = whyNoPlugin(definition);
  if (fault) throw new TypeError(`the default export ${fault}`);
  const mounted = new Mounted(definition as AnyPlugin, options);
  await mounted.reload(options.config ?? {});
  return mounted;
}

export class Mounted implements api.Mounted {
  readonly clock = new FakeClock();
  readonly upstream: ScriptedUpstream;
  readonly targets: Readonly<Record<string, ScriptedUpstream>>;
  readonly callees: Readonly<Record<string, ScriptedUpstream>>;
  readonly logs: readonly LogRecord[];
  readonly lines: string[] = [];
  readonly spans: api.SeenSpan[] = [];
  readonly #definition: AnyPlugin;
  readonly #options: MountOptions;
  readonly #lender: HostDeps;
  readonly #connection: Connection;
  readonly #files: Map<string, { readonly text: string; readonly stamp: string }>;
  #writes = 0;
  #generation: Generation | undefined;
  #loads = 0;
  #requests = 0;

  /** See {@link mount}. */
  constructor(definition: AnyPlugin, options: MountOptions) {
    const { clock } = this;
    const logs: LogRecord[] = this.logs = [];
    this.#definition = definition;
    this.#options = options;
    this.upstream = new ScriptedUpstream(options.upstream ?? []);
    this.targets = scriptsOf(options.targets);
    this.callees = scriptsOf(options.callees);
    this.#files = new Map();
    for (const [path, text] of Object.entries(options.files ?? {})) this.write(path, text);
    this.#lender = {
      log: createLog({
        clock,
        holder: { level: "debug" },
        write: (line) => void (logs as LogRecord[]).push(line),
      }),
      stats: new Stats(),
      clock,
      random: options.random ?? (() => 0.5),
      shared: new SharedState(),
      callees: scriptedCallees(this.callees, clock),
      files: scriptedFiles(this.#files, options.env ?? {}),
      takeLine: (line) => void this.lines.push(line),
    };
    this.#connection = {
      listener: LISTENER,
      direction: "inbound",
      remoteAddress: "10.0.1.1:40000",
      ownUri: uriOf("db"),
      source: identityOf(options.source === undefined ? "web" : options.source),
    };
  }

  async reload(config: unknown): Promise<void> {
    const { onFailure = "refuse", routeConfig } = this.#options;
    const { name } = this.#definition;
    const before = this.#generation;
    this.#generation = await Generation.make({
      listener: LISTENER,
      number: ++this.#loads,
      carriesBytes: false,
      plugins: [{ definition: this.#definition, config, onFailure, at: "plugins[0]" }],
      routes: [{
        route: { name: "default", service: "db", match: null },
        configs: routeConfig === undefined ? {} : { [name]: routeConfig },
        at: "routes[0]",
      }],
      lender: this.#lender,
    });
    void before?.retire();
    await settle();
  }

  request(init: RequestInit = {}): Promise<Answer> {
    const id = `request-${++this.#requests}`;
    const { clock, upstream, targets, spans } = this;
    const generation = this.#serving();
    const connection = this.#connection;
    const setup = { generation, upstream, targets, spans, clock, connection, id };
    return new MountedRequest(init, setup).answer;
  }

  write(path: string, text: string | null): void {
    if (text === null) this.#files.delete(path);
    else this.#files.set(path, { text, stamp: String(++this.#writes) });
  }

  async connect(init: Partial<Connection> = {}): Promise<Connected> {
    const known = Promise.withResolvers<Connected>();
    this.#serving().judgeConnection({ ...this.#connection, ...init }, {
      deadlines: this.clock,
      onKnown: (refusal) => known.resolve({ refusal: refusal ?? null }),
    });
    return await known.promise;
  }

  #serving(): Generation {
    if (!this.#generation) throw new TypeError("the plugin was closed");
    return this.#generation;
  }

  stat(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const full = `plugin_${this.#definition.name}_${name}`;
    const samples = this.#lender.stats.samples().filter((sample) =>
      [full, `${full}_total`].includes(sample.name.replace(/^postern_/, ""))
    );
    if (samples.length === 0) throw new TypeError(`there is no metric ${name}`);
    const wanted = Object.entries(labels);
    return samples
      .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
      .reduce((sum, { value }) => sum + value, 0);
  }

  /** Closes the plugin after the requests that are under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    void this.#generation?.retire();
    this.#generation = undefined;
    await settle();
  }
}

const TRUST_DOMAIN = "11111111-2222-3333-4444-555555555555.consul";

function uriOf(service: string): string {
  return `spiffe://${TRUST_DOMAIN}/ns/default/dc/dc1/svc/${service}`;
}

function identityOf(source: string | Identity | null): Identity | null {
  if (typeof source !== "string") return source;
  return {
    uri: uriOf(source),
    trustDomain: TRUST_DOMAIN,
    datacenter: "dc1",
    partition: "default",
    namespace: "default",
    service: source,
  };
}

function scriptsOf(
  steps: Readonly<Record<string, readonly api.Step[]>> = {},
): Readonly<Record<string, ScriptedUpstream>> {
  return Object.fromEntries(
    Object.entries(steps).map(([name, script]) => [name, new ScriptedUpstream(script)]),
  );
}

function scriptedFiles(
  files: ReadonlyMap<string, { readonly text: string; readonly stamp: string }>,
  env: Readonly<Record<string, string>>,
): HostFiles {
  return {
    stampOf: (path) => Promise.resolve(files.get(path)?.stamp ?? ""),
    read(path, limitBytes) {
      const file = files.get(path);
      if (!file) return Promise.reject(new TypeError("the test has no file of that name"));
      const bytes = bytesOf(file.text);
      if (bytes.length <= limitBytes) return Promise.resolve(bytes);
      const reason = `it has ${bytes.length} bytes, more than ${limitBytes}`;
      return Promise.reject(new RangeError(reason));
    },
    env: (name) => env[name],
  };
}

function scriptedCallees(
  scripts: Readonly<Record<string, ScriptedUpstream>>,
  clock: FakeClock,
): Callees {
  // The rest of a context concerns the health of picked endpoints; a script picks none.
  const context = { clock: clock as Context["clock"] } as Context;
  return {
    whyNot: ({ target }) => scripts[target] ? undefined : "the test has nobody of that name",
    open: ({ target }) => ({
      authority: target,
      call(request, onResponse) {
        const call = new OutgoingCall(request, onResponse);
        const script = scripts[target];
        if (script) call.start(script, context);
        return call;
      },
      endpoints: () => ({ known: 1, usable: 1 }),
      close: () => {},
    }),
  };
}

/** The module `postern/kit` for the tests of plugin authors: what its types promise, and nothing else. */
export const AUTHOR_KIT: typeof api = { mount, ok, status, reset, unreachable, hold, settle };

/** The types of `postern/kit`, for editors. Authors import the contract as `postern`. */
export const KIT_TYPES: string = apiText.replace('"../plugin/mod.ts"', '"postern"');
