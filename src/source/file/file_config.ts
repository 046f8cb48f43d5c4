/**
 * The format of `-config FILE`: a whole proxy without Consul, in JSON or YAML. Unknown keys and values are
 * errors with their place. All problems are reported at once.
 *
 * @example
 * {
 *   "service": "web",
 *   "trustDomain": "mesh.example",
 *   "credentials": { "certFile": "web.pem", "keyFile": "web.key", "rootsFile": "roots.pem" },
 *   "inbound": { "bind": "0.0.0.0:20000", "local": "127.0.0.1:8080" },
 *   "upstreams": [{
 *     "name": "db",
 *     "bind": "127.0.0.1:9191",
 *     "addresses": ["10.0.0.7:20000", { "host": "10.0.0.8", "port": 20000, "weight": 2 }],
 *     "identity": { "service": "db" }
 *   }],
 *   "intentions": [{ "source": "shop", "action": "allow" }]
 * }
 *
 * @module
 */

import { dirname, resolve } from "node:path";
import * as v from "valibot";
import { formatAddress, prepareRegexes, ProxyError } from "../../base/mod.ts";
import { type ConfigPath, formatPath, type Problem, problemOf } from "../../base/schema.ts";
import {
  type ConfigDocument,
  type ConfigPlace,
  jsonDocument,
  readConfigDocument,
} from "./config_document.ts";
import { FILE_CONFIG, type FileConfigOutput } from "./file_config_schema.ts";
import {
  type FileCredentials,
  fileCredentials,
  type FileCredentialsOptions,
} from "./file_credentials.ts";
import { intentionContradictions, mayHaveRegex } from "./file_intentions.ts";
import type { PluginWatch } from "../plugins/plugin_watch.ts";
import { type PluginCode, type PluginList, PluginReader } from "../plugins/read_plugins.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { Refusal } from "../../snapshot/mod.ts";
import { httpContradictions } from "./file_http.ts";

export interface FileConfig extends Omit<FileConfigOutput, "credentials" | "sds"> {
  readonly credentials: FileCredentials;
  /** Code of plugins from files; absent: there is none. */
  readonly pluginCode?: PluginCode;
  /** Lists of plugins whose files cannot be used: their listeners keep those of before, or stay closed. */
  readonly refused?: readonly Refusal[];
}
export type FileUpstream = FileConfig["upstreams"][number];

export interface ConfigProblem {
  /** `upstreams[0].bind`, `""`: the whole. */
  readonly path: string;
  readonly message: string;
  readonly place: ConfigPlace;
}

export type ParsedConfig =
  | { readonly kind: "valid"; readonly config: FileConfig }
  | { readonly kind: "invalid"; readonly problems: readonly ConfigProblem[] };

/** Limit of the report; the place of each problem is searched in the text. */
const PROBLEMS_LIMIT = 100;

/** Reads the text of a JSON file; never throws. Where it may have regexes they were prepared. */
export function parseFileConfig(
  source: string,
  options: Omit<FileCredentialsOptions, "service">,
): ParsedConfig {
  return parseConfigDocument(jsonDocument(source, options.file), options);
}

function parseConfigDocument(
  document: ConfigDocument,
  options: Omit<FileCredentialsOptions, "service">,
): ParsedConfig {
  if (document.kind === "invalid") {
    const { message, place } = document;
    return { kind: "invalid", problems: [{ path: "", message, place }] };
  }
  const found: Problem[] = [...document.problems];
  // To the schema a list is an object without any of its keys.
  const value = Array.isArray(document.value) ? undefined : document.value;
  const result = v.safeParse(FILE_CONFIG, value, { abortPipeEarly: true });
  if (result.success) {
    const { output } = result;
    found.push(...contradictions(output));
    const { service } = output;
    const credentials = fileCredentials(output, found, { ...options, service });
    const warnings = [...document.warnings, ...credentials.plans.warnings];
    const plans = { ...credentials.plans, warnings };
    if (found.length === 0) {
      return { kind: "valid", config: { ...output, credentials: { ...credentials, plans } } };
    }
  } else found.push(...result.issues.map(problemOf));
  const problems = found.slice(0, PROBLEMS_LIMIT).map(({ path, message }) => ({
    path: formatPath(path),
    message,
    place: document.placeOf(path),
  }));
  const more = found.length - problems.length;
  if (more > 0) {
    problems.push({ path: "", message: `has ${more} more problems`, place: document.placeOf([]) });
  }
  return { kind: "invalid", problems };
}

/** `line 3, column 5: upstreams[0].bind must be ...`, after the file's name where there are several. */
export function formatProblem({ path, message, place }: ConfigProblem): string {
  const at = `line ${place.line}, column ${place.column}`;
  return `${place.file === undefined ? "" : `${place.file}, `}${at}: ${
    path || "the file"
  } ${message}`;
}

/**
 * Reads a file or directory; throws `config_invalid` with everything that is wrong. Secrets are not read.
 * With `previous`, plugins whose files cannot be used are refused for their listener alone.
 */
export async function readFileConfig(
  path: string,
  options: {
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly pluginWatch?: PluginWatch | undefined;
    readonly previous?: FileConfig | undefined;
  },
): Promise<FileConfig> {
  const document = await readConfigDocument(path);
  const file = document.kind === "valid" ? document.file : path;
  if (document.kind === "valid" && document.texts.some(mayHaveRegex)) await prepareRegexes();
  const parsed = parseConfigDocument(document, { ...options, file });
  const reader = new PluginReader(dirname(resolve(file)), options.pluginWatch);
  const read = parsed.kind === "invalid" || document.kind === "invalid"
    ? parsed
    : await readPlugins(parsed.config, reader, { document, previous: options.previous });
  if (read.kind === "valid") return read.config;
  const problems = read.problems.map((problem) => `\n  ${formatProblem(problem)}`).join("");
  throw new ProxyError("config_invalid", `Cannot use configuration "${path}":${problems}`);
}

async function readPlugins(
  config: FileConfig,
  reader: PluginReader,
  { document, previous }: {
    readonly document: Extract<ConfigDocument, { kind: "valid" }>;
    readonly previous: FileConfig | undefined;
  },
): Promise<ParsedConfig> {
  const refused: Refusal[] = [];
  const kept: PluginCode[] = [];
  /** `undefined`: the listener has no plugins that it could keep. */
  const read = async <T extends Pick<FileUpstream, "plugins">>(
    listener: T,
    { at, name, before }: {
      readonly at: ConfigPath;
      readonly name: string;
      readonly before: Pick<FileUpstream, "plugins"> | undefined;
    },
  ): Promise<T | undefined> => {
    const known = reader.problems.length;
    const plugins = await reader.read(listener.plugins, [...at, "plugins"]);
    const problems = reader.problems.slice(known).map(placed);
    if (problems.length === 0) return plugins ? { ...listener, plugins } : listener;
    const reason = problems.map(formatProblem).join("; ");
    refused.push({ what: `plugins of ${name}`, reason });
    if (!before) return undefined;
    const list: PluginList = before.plugins;
    const files = new Set(list?.map(({ file }) => file?.code));
    const code = Object.entries(previous?.pluginCode ?? {}).filter(([key]) => files.has(key));
    kept.push(Object.fromEntries(code));
    return { ...listener, plugins: before.plugins };
  };
  const placed = ({ path, message }: Problem): ConfigProblem => ({
    path: formatPath(path),
    message,
    place: document.placeOf(path),
  });
  const { inbound: ownInbound, ...others } = config;
  const inbound = ownInbound &&
    await read(ownInbound, { at: ["inbound"], name: "inbound", before: previous?.inbound });
  const upstreams: FileUpstream[] = [];
  for (const [index, upstream] of config.upstreams.entries()) {
    const { name } = upstream;
    const before = previous?.upstreams.find((one) => one.name === name);
    const own = await read(upstream, { at: ["upstreams", index], name, before });
    if (own) upstreams.push(own);
  }
  if (refused.length > 0 && !previous) {
    return { kind: "invalid", problems: reader.problems.map(placed) };
  }
  const pluginCode = Object.assign({}, ...kept, reader.code) as PluginCode;
  const own = { ...others, ...inbound && { inbound }, upstreams };
  const code = Object.keys(pluginCode).length > 0 && { pluginCode };
  return { kind: "valid", config: { ...own, ...code, ...refused.length > 0 && { refused } } };
}

function contradictions(config: FileConfigOutput): readonly Problem[] {
  const found: Problem[] = [];
  if (!config.inbound && config.upstreams.length === 0) {
    const message = 'has neither "inbound" nor "upstreams": nothing would be served';
    found.push({ path: [], message });
  }
  for (const problem of config.inbound ? httpContradictions(config.inbound) : []) {
    found.push({ ...problem, path: ["inbound", ...problem.path] });
  }
  const names = new Set<string>();
  const binds = new Set(config.inbound ? [formatAddress(config.inbound.bind)] : []);
  config.upstreams.forEach((upstream, index) => {
    const at = (key: string, message: string) =>
      found.push({ path: ["upstreams", index, key], message });
    if (names.has(upstream.name)) at("name", `"${upstream.name}" is used by an earlier upstream`);
    names.add(upstream.name);
    const bind = formatAddress(upstream.bind);
    if (binds.has(bind)) at("bind", `${bind} is taken by an earlier listener`);
    binds.add(bind);
    const addresses = new Set<string>();
    upstream.addresses.forEach(({ host, port }, position) => {
      const address = `${host}:${port}`;
      if (addresses.has(address)) {
        const path = ["upstreams", index, "addresses", position];
        found.push({ path, message: "is given twice" });
      }
      addresses.add(address);
    });
    const hasIdentity = upstream.identity !== undefined;
    const hasIds = upstream.spiffeIds !== undefined;
    // Rules of its own credentials may name the server instead; those from SDS are known later.
    if (hasIdentity && hasIds || !hasIdentity && !hasIds && upstream.tls === undefined) {
      at("identity", 'is needed, or "spiffeIds"; one of the two says who must answer');
    }
    if (hasIdentity && config.trustDomain === undefined) {
      at("identity", 'needs "trustDomain" at the top of the file');
    }
    for (const id of upstream.spiffeIds ?? []) {
      // An upstream with credentials of its own names its own bundle for each id.
      if (upstream.tls !== undefined || config.trustDomain === undefined) continue;
      const parsed = parseServiceId(id);
      if (parsed.kind === "refused") at("spiffeIds", `has "${id}", which ${parsed.reason}`);
      else if (!id.startsWith(`spiffe://${config.trustDomain}/`)) {
        at("spiffeIds", `has "${id}", which is not in trust domain "${config.trustDomain}"`);
      }
    }
    for (const problem of httpContradictions(upstream)) {
      found.push({ ...problem, path: ["upstreams", index, ...problem.path] });
    }
    if (upstream.socketMode !== undefined && upstream.bind.kind !== "unix") {
      at("socketMode", "is for unix sockets only");
    }
    const { balancing } = upstream;
    if (balancing.kind === "ring_hash" && balancing.minimumSize > balancing.maximumSize) {
      at("balancing", "has a minimumSize above its maximumSize");
    }
  });
  found.push(...intentionContradictions(config));
  return found;
}
