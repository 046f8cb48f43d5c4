/** `postern doctor`, and `check -online`: looks for everything that lets traffic fail. @module */

import process from "node:process";
import { type AskAdmin, askAdmin } from "../../../admin/mod.ts";
import {
  type ErrorCode,
  escapeUnseen,
  messageOf,
  printable,
  ProxyError,
  systemClock,
} from "../../../base/mod.ts";
import { agentAddressText, type Registration } from "../../../consul/mod.ts";
import { registrationOfFlags } from "../../../source/mod.ts";
import type { Snapshot } from "../../../snapshot/mod.ts";
import type { ProxyOptions } from "../../flags/proxy_options.ts";
import { firstRegistration, type ProxyControl } from "../../process/control.ts";
import { descriptorLimit, runtimeEngine } from "../../../net/mod.ts";
import { fittingConnections } from "../../process/descriptors.ts";
import {
  findProxy,
  findSidecars,
  type FoundSidecar,
  noneFound,
  type WantedProxy,
  type WhichSidecars,
} from "../../process/find_admin.ts";
import { usualIdOf } from "../../process/find_proxy.ts";
import { withControl } from "../check_consul.ts";
import { screenOf } from "../live/terminal.ts";
import {
  doctorExitCode,
  type DoctorFinding,
  doctorLines,
  type DoctorReport,
  findingsOf,
} from "./finding.ts";
import {
  checkApplication,
  checkCertificates,
  checkClock,
  checkDescriptors,
  checkIntentions,
  checkPorts,
} from "./machine_checks.ts";
import {
  checkCalls,
  checkCatalog,
  checkConfiguration,
  checkProtocols,
  checkRights,
  checkUpstreams,
} from "./mesh_checks.ts";
import {
  checkRenewal,
  checkRunning,
  checkSameMesh,
  type ExaminedProxy,
  flagsOfRunning,
  listenerOwners,
  readRunning,
  whyUnread,
} from "./running_proxy.ts";

export interface DoctorOptions {
  /** The proxy by its flags; `undefined`: those of `running`. */
  readonly proxy: ProxyOptions | undefined;
  readonly running: WhichSidecars;
  /** Reads the command line with these flags added. */
  readonly read: (more: readonly string[]) => ProxyOptions;
  readonly json: boolean;
  readonly noColor: boolean;
}

/** 0: traffic is carried, perhaps with warnings; 1: some of it fails. Throws for wrong usage. */
export async function runDoctor(options: DoctorOptions): Promise<number> {
  const reports = await doctorReports(options, askAdmin);
  const screen = screenOf(options);
  const text = options.json
    ? `${escapeUnseen(JSON.stringify({ proxies: reports }))}\n`
    : [...reports.map((report) => doctorLines(report, screen)), summaryOf(reports)]
      .filter(({ length }) => length > 0)
      .map((lines) => lines.map((line) => `${line}\n`).join("")).join("\n");
  process.stdout.write(text);
  return Math.max(...reports.map(doctorExitCode));
}

/** The last line after several sections, which may not fit the screen; empty for one. */
function summaryOf(reports: readonly DoctorReport[]): readonly string[] {
  if (reports.length < 2) return [];
  const failing = reports.filter((report) => doctorExitCode(report) === 1)
    .map(({ proxy }) => printable(proxy.replace(/,.*/, "")));
  const text = failing.length === 0 ? "none with failures" : `failures: ${failing.join(", ")}`;
  return [`${reports.length} proxies, ${text}`];
}

/** Each holds connections to the agent, which allows 200 of one address. */
const AT_ONCE = 4;

/** One for each proxy that is meant. */
export async function doctorReports(
  options: DoctorOptions,
  ask: AskAdmin,
): Promise<readonly DoctorReport[]> {
  if (options.proxy) return [await reportOf(options.proxy, undefined, ask)];
  const found = await findSidecars(options.running, ask);
  if (found.length === 0) throw new ProxyError("usage", noneFound(options.running));
  const reports: DoctorReport[] = [];
  for (let first = 0; first < found.length; first += AT_ONCE) {
    const some = found.slice(first, first + AT_ONCE);
    reports.push(
      ...await Promise.all(some.map(async (one) => {
        try {
          return await reportOfRunning(one, options, ask);
        } catch (error) {
          // Others of this machine can still be examined.
          if (found.length === 1) throw error;
          const finding = findingsOf("running").failure({
            what: messageOf(error),
            why: "nothing is known about its traffic",
            fix: `give its flags: postern doctor -sidecar-for ID`,
          });
          return { proxy: `the proxy at ${one.at}`, findings: [finding] };
        }
      })),
    );
  }
  return reports;
}

async function reportOfRunning(
  found: FoundSidecar,
  { read }: DoctorOptions,
  ask: AskAdmin,
): Promise<DoctorReport> {
  const known = await readRunning(found, ask).catch((error) => {
    throw new ProxyError("usage", `Cannot ask the proxy at ${found.at}: ${whyUnread(error)}`);
  });
  const flags = flagsOfRunning(known, agentAddressText(undefined, process.env));
  return await reportOf(read(flags), known, ask);
}

/** `known`: the running proxy of these flags, where it is known already. */
async function reportOf(
  proxy: ProxyOptions,
  known: ExaminedProxy | undefined,
  ask: AskAdmin,
): Promise<DoctorReport> {
  const findRunning = async (proxyId: string) => known ?? await runningOf(proxy, proxyId, ask);
  const usualId = proxy.mode.kind === "agent" ? usualIdOf(proxy.mode) : "";
  try {
    return await withControl(proxy, async (control, first) => {
      const { proxyId } = control;
      const running = await findRunning(proxyId);
      try {
        const snapshot = await first();
        const findings = await examine({ proxy, control, snapshot, running }, ask);
        return { proxy: titleOf(proxy, { snapshot, proxyId, running }), findings };
      } catch (error) {
        const found = [consulFinding(error), ...await rightsOf(proxy, control)];
        const findings = [...found, ...checkRunning(running, found)];
        return { proxy: titleOf(proxy, { proxyId, running }), findings };
      }
    });
  } catch (error) {
    const running = await findRunning(usualId);
    const found = [consulFinding(error)];
    const findings = [...found, ...checkRunning(running, found)];
    return { proxy: titleOf(proxy, { proxyId: usualId, running }), findings };
  }
}

/** Without a first snapshot: the rights that the token lacks may be the reason. */
async function rightsOf(
  proxy: ProxyOptions,
  control: ProxyControl,
): Promise<readonly DoctorFinding[]> {
  const { agent } = control;
  return agent
    ? await checkRights({ agent, registration: await registrationOf(proxy, control) })
    : [];
}

/** Throws what is wrong usage or configuration. */
function consulFinding(error: unknown): DoctorFinding {
  const fix = CONSUL_FIXES[error instanceof ProxyError ? error.code : "internal"];
  if (fix === undefined) throw error;
  return findingsOf("consul").failure({
    what: messageOf(error),
    why: "a proxy that starts now carries no traffic; one that runs keeps its last state",
    fix,
  });
}

/** Failures that are findings; others are wrong usage or configuration. */
const CONSUL_FIXES: Readonly<Partial<Record<ErrorCode, string>>> = {
  agent_unreachable: "start the agent, or give its address: -http-addr, CONSUL_HTTP_ADDR, -servers",
  agent_failed: "see the log of the agent; do its servers have a leader?",
  agent_overloaded: "the agent refuses connections: raise limits.http_max_conns_per_client",
  agent_forbidden: "give a token that may do this: -token-file, CONSUL_HTTP_TOKEN",
  agent_not_found: "register the service with a sidecar (connect.sidecar_service)",
  agent_reply_invalid: "does a Consul answer at this address?",
  cluster_changed: "empty -state-dir, or give the address of the former cluster",
};

interface Patient {
  readonly proxy: ProxyOptions;
  readonly control: ProxyControl;
  readonly snapshot: Snapshot;
  readonly running: ExaminedProxy | undefined;
}

async function examine(
  { proxy, control, snapshot, running }: Patient,
  ask: AskAdmin,
): Promise<readonly DoctorFinding[]> {
  const { agent, source, proxyId } = control;
  const facts = agent && {
    snapshot,
    source,
    agent,
    proxyId,
    registration: await registrationOf(proxy, control),
    runs: running !== undefined,
  };
  const ofMesh = facts
    ? [
      [findingsOf("consul").ok(`${agent.called === "agent" ? "the agent" : "Consul"} answers`)],
      ...await Promise.all([
        checkRights(facts),
        facts.registration && proxy.mode.kind === "agent" ? checkCatalog(facts) : [],
        checkCalls(facts),
        checkProtocols(facts),
      ]),
    ]
    : [];
  const engine = runtimeEngine();
  // The newest reply has just come.
  const clock = checkClock(agent?.replyDate?.() ?? "", systemClock.now());
  const found = [
    ...ofMesh.flat(),
    ...clock,
    ...checkConfiguration(source),
    ...checkUpstreams({ snapshot, source }),
    ...await checkIntentions(snapshot),
    ...checkCertificates(snapshot, systemClock.now()),
    ...checkRenewal(running),
    ...checkSameMesh(running, snapshot.credentials?.trustDomains[0] ?? ""),
    ...await checkApplication(snapshot, engine),
    ...running ? [] : await checkPorts(snapshot, { engine, ownerOf: await listenerOwners(ask) }),
    ...checkDescriptors(proxy.maxConnections, limitsOf(proxy, running)),
  ];
  return [...found, ...checkRunning(running, found)];
}

function limitsOf(proxy: ProxyOptions, running: ExaminedProxy | undefined) {
  const limits = running?.info.postern.limits;
  if (limits) {
    const { open_files: files, max_connections: maxConnections } = limits;
    return { maxConnections, openFiles: typeof files === "number" ? files : undefined };
  }
  const openFiles = descriptorLimit();
  return { openFiles, maxConnections: fittingConnections(proxy.maxConnections, openFiles) };
}

const REGISTRATION_WAIT_MS = 5_000;

async function registrationOf(
  { mode }: ProxyOptions,
  { agent, proxyId }: ProxyControl,
): Promise<Registration | undefined> {
  if (mode.kind === "flags" && !mode.register) return registrationOfFlags(mode);
  if (!agent || mode.kind === "config") return undefined;
  const late = Promise.withResolvers<undefined>();
  const timer = systemClock.after(REGISTRATION_WAIT_MS, () => late.resolve(undefined));
  return await Promise.race([firstRegistration(agent, proxyId), late.promise])
    .finally(() => timer.cancel());
}

/** The process of these flags, where its admin server is one of those that are searched. */
async function runningOf(
  { mode, agentFlags, serversFlags, adminBind }: ProxyOptions,
  proxyId: string,
  ask: AskAdmin,
): Promise<ExaminedProxy | undefined> {
  const wanted: WantedProxy = mode.kind === "config" ? { flag: "config", value: mode.file } : {
    flag: "proxy-id",
    value: proxyId,
    ...!serversFlags && {
      agent: { address: agentAddressText(agentFlags.httpAddr, process.env), said: "-http-addr" },
    },
  };
  const found = await findProxy(
    adminBind.kind === "address"
      ? { kind: "address", admin: { kind: "tcp", host: adminBind.host, port: adminBind.port } }
      : { kind: "proxy", wanted },
    { ask },
  );
  if (found.kind !== "found") return undefined;
  const { admin } = found;
  try {
    const running = await readRunning({ admin, at: `${admin.host}:${admin.port}` }, ask);
    // One of the same id beside servers is of another mesh than one of this agent.
    const besideServers = running.info.postern.options.servers !== "";
    const isMeant = adminBind.kind === "address" || mode.kind === "config" ||
      besideServers === (serversFlags !== undefined);
    return isMeant ? running : undefined;
  } catch {
    // It does not run, or ends just now.
    return undefined;
  }
}

function titleOf(
  { agentFlags, serversFlags, mode }: ProxyOptions,
  { snapshot, proxyId, running }: {
    readonly snapshot?: Snapshot;
    readonly proxyId: string;
    readonly running: ExaminedProxy | undefined;
  },
): string {
  const pid = running?.info.postern.pid;
  const consul = mode.kind === "config"
    ? ""
    : serversFlags
    ? `servers ${serversFlags.servers}`
    : `agent ${agentAddressText(agentFlags.httpAddr, process.env)}`;
  return [
    snapshot ? `${proxyId} of service ${snapshot.service}` : proxyId,
    consul,
    pid === undefined ? "not running" : `process ${pid}`,
  ].filter((part) => part !== "").join(", ");
}
