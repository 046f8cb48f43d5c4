/** `postern check`: reads configuration and secrets as a proxy would; changes nothing. @module */

import process from "node:process";
import {
  formatAddress,
  formatSpanMs,
  type LogRecord,
  prepareRegexes,
  printable,
  ProxyError,
  sleep,
  systemClock,
} from "../../base/mod.ts";
import { resolveAgentOptions, resolveServersOptions } from "../../consul/mod.ts";
import type { SecretStatus } from "../../secrets/mod.ts";
import { FileSource } from "../../source/mod.ts";
import type { HttpRules, Snapshot } from "../../snapshot/mod.ts";
import type { ProxyOptions } from "../flags/proxy_options.ts";
import { createSecretStore } from "../process/control.ts";
import { checkConsul, checkDeps, type CheckReport, pluginFaults, summary } from "./check_consul.ts";
import { compilePermission, policyNeedsRegexes } from "../../policy/mod.ts";

/** Time for secrets to come; a later answer is reported as a fault. */
const SECRETS_WAIT_MS = 5_000;
const LOOK_MS = 50;
const WAIT_S = SECRETS_WAIT_MS / 1_000;
const SILENT = `it did not come within ${WAIT_S} s; does its source know the name?`;

const WARNING = "warning: ";

/** A part of the configuration is refused. */
const REFUSED = 2;

/** Prints the report and returns the exit code; throws `config_invalid` with the faults of a file. */
export async function runCheck(
  { options, strict }: { readonly options: ProxyOptions; readonly strict: boolean },
): Promise<number> {
  const { lines, hasRefusals, hasWarnings } = options.mode.kind === "agent"
    ? await checkConsul(options)
    : await check(options);
  for (const line of lines) process.stdout.write(`${printable(line)}\n`);
  if (hasRefusals) return REFUSED;
  return strict && hasWarnings ? 1 : 0;
}

async function check(options: ProxyOptions): Promise<CheckReport> {
  const lines = await linesOf(options);
  const hasWarnings = options.warnings.length > 0 || lines.some((line) => line.startsWith(WARNING));
  return { lines, hasRefusals: false, hasWarnings };
}

async function linesOf(options: ProxyOptions): Promise<readonly string[]> {
  const { mode, serversFlags } = options;
  if (serversFlags) {
    resolveServersOptions(serversFlags, process.env);
    return [...options.warnings, "flags and environment are valid; no server was asked"];
  }
  if (mode.kind !== "config") {
    const { address, tls } = resolveAgentOptions(options.agentFlags, process.env);
    const where = address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
    const { caFile, caPath, clientCert, clientKey } = options.agentFlags;
    const unread = !tls && [caFile, caPath, clientCert, clientKey].some((path) => path);
    return [
      ...options.warnings,
      ...(unread
        ? [
          `${WARNING}the files for TLS to the agent were not read, because its address is not ` +
          "https://...",
        ]
        : []),
      `flags and environment are valid; the agent (${where}) was not asked`,
    ];
  }
  const noted: LogRecord[] = [];
  const deps = checkDeps("warn", (record) => void noted.push(record));
  const source = new FileSource({
    ...deps,
    file: mode.file,
    strictSpiffeChain: options.strictSpiffeChain,
    createSecretStore: () => createSecretStore(deps),
  });
  try {
    let snapshot: Snapshot | undefined;
    await new Promise<void>((resolve, reject) => {
      source.start((next) => {
        snapshot = next;
        resolve();
        return Promise.resolve(next);
      }, (error: ProxyError) => reject(error));
    });
    const secrets = await answered(source);
    const plugins = snapshot ? await pluginFaults(snapshot) : [];
    const faults = [...new Set([...faultsOf(secrets, source), ...plugins])];
    if (faults.length > 0) {
      faults.push(...askedAs(secrets.filter(({ state }) => state !== "active")));
      const lines = faults.map((fault) => `\n  ${fault}`).join("");
      throw new ProxyError("config_invalid", `Cannot use configuration "${mode.file}":${lines}`);
    }
    return [
      ...options.warnings,
      ...noted.flatMap(warningOf),
      // Rules of several users make several secrets of one file.
      ...new Set(secrets.map(describe)),
      ...askedAs(secrets),
      ...(snapshot ? await describeListeners(snapshot) : []),
      `${mode.file} is valid: ${snapshot ? summary(snapshot, []) : "nothing is configured"}`,
    ];
  } finally {
    await source.close();
  }
}

/** The state of every secret when all have answered, or the time is over. */
async function answered(source: FileSource): Promise<readonly SecretStatus[]> {
  const deadlineMs = systemClock.monotonic() + SECRETS_WAIT_MS;
  for (;;) {
    const { statuses } = source.secrets();
    const open = statuses.some(({ state, fault }) => state !== "active" && fault === "");
    const faulty = statuses.some(({ fault }) => fault !== "");
    const used = source.refused.length > 0 || source.status().warming.length === 0;
    if (!open && (faulty || used) || systemClock.monotonic() >= deadlineMs) return statuses;
    await sleep(systemClock, LOOK_MS);
  }
}

function faultsOf(secrets: readonly SecretStatus[], source: FileSource): readonly string[] {
  const silent = secrets.filter(({ state, fault }) => state !== "active" && fault === "")
    .map(({ name, source }) => `secret ${name} (${source}): ${SILENT}`);
  return [...source.refused.map(({ what, reason }) => `${what}: ${reason}`), ...silent];
}

/** An agent that attests processes may give another user, such as the service's, other secrets. */
function askedAs(secrets: readonly SecretStatus[]): readonly string[] {
  if (!secrets.some(({ source }) => /^(workload|sds) /.test(source))) return [];
  const who = `uid ${process.getuid?.()}, gid ${process.getgid?.()}`;
  return [`asked as ${who}; where an agent gives by user, check as the user of the service`];
}

/** Warnings that the proxy would log about a valid configuration. */
function warningOf({ message, fields }: LogRecord): readonly string[] {
  switch (message) {
    case "configuration":
      return [`${WARNING}${fields.warning}`];
    case "key file is readable by others":
      // Passwords, too, and files of Envoy that may hold a key.
      return [`${WARNING}${fields.file} can be read by others (mode ${fields.mode})`];
    case "certificate expires soon and was not replaced":
      return [
        `${WARNING}certificate ${fields.secret} expires in ${fields.expires_in}: ${fields.expires}`,
      ];
    case "certificate has expired":
      return [`${WARNING}certificate ${fields.secret} has expired: ${fields.expires}`];
    default:
      return [];
  }
}

function describe({ type, name, source, certificate }: SecretStatus): string {
  // The name is empty where a file has one secret, of any name.
  const what = [type, name, `(${source})`].filter((part) => part !== "").join(" ");
  if (!certificate) return what;
  const { serial, dnsNames, uris, notAfterMs } = certificate;
  const names = [...uris, ...dnsNames].join(", ");
  const until = new Date(notAfterMs).toISOString();
  return `${what}: ${names}, serial ${serial}, until ${until}`;
}

/** One line each. */
export async function describeListeners(snapshot: Snapshot): Promise<readonly string[]> {
  const { inbound, upstreams, policy } = snapshot;
  const lines: string[] = [];
  for (const [name, { bind, local, http }] of Object.entries(inbound)) {
    const where = `${formatAddress(bind)} for ${formatAddress(local)}`;
    lines.push(`listener ${name} on ${where}: ${wordsOf(http)}`);
  }
  for (const { name, bind, http } of Object.values(upstreams)) {
    const where = bind ? ` on ${formatAddress(bind)}` : "";
    lines.push(`upstream ${name}${where}: ${wordsOf(http)}`);
  }
  if (!Object.values(inbound).some(({ http }) => http)) return lines;
  if (policyNeedsRegexes(policy)) await prepareRegexes();
  for (const { rule, permissions = [] } of policy.intentions) {
    for (const [index, permission] of permissions.entries()) {
      const { text } = compilePermission(permission);
      lines.push(`intention ${rule}, permission ${index + 1}: ${text}`);
    }
  }
  return lines;
}

/** Every setting that differs from its default, and the common ones. */
function wordsOf(http: HttpRules | null): string {
  if (!http) return "tcp, carried as it is";
  const { path } = http;
  const words: string[] = [http.protocol];
  if (path.normalize) words.push("paths normalized");
  if (path.mergeSlashes) words.push("slashes merged");
  if (path.escapedSlashes !== "keep") words.push(`escaped slashes: ${path.escapedSlashes}`);
  if (path.underscores !== "allow") words.push(`underscores in names: ${path.underscores}`);
  words.push(`heads of at most ${Math.floor(http.headBytes / 1024)} KB`);
  const time = (ms: number) =>
    ms === 0 ? "no limit" : ms % 1_000 === 0 ? formatSpanMs(ms) : `${ms}ms`;
  words.push(`time for a request: ${time(http.requestTimeoutMs)}`);
  words.push(`silence: ${time(http.streamIdleTimeoutMs)}`);
  if (http.sanitizeForwardedClientCert) words.push("x-forwarded-client-cert is dropped");
  if (http.showDenials === "rule") words.push("denied callers get the rule in x-postern-denied-by");
  if (http.showDenials === "off") words.push("x-postern-denied-by is not sent");
  return words.join(", ");
}
