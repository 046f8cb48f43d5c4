/** Checks of `postern doctor` on this machine: ports, the application, limits, clock, certificates. @module */

import {
  type Address,
  formatAddress,
  formatSpanMs,
  messageOf,
  prepareRegexes,
  systemClock,
} from "../../../base/mod.ts";
import type { Engine } from "../../../net/mod.ts";
import { parseCertificate, parseServiceId } from "../../../identity/mod.ts";
import { parsePem } from "../../../wire/mod.ts";
import type { Snapshot } from "../../../snapshot/mod.ts";
import { policyNeedsRegexes } from "../../../policy/mod.ts";
import { tooFewFiles } from "../../process/descriptors.ts";
import { countOf, type DoctorFinding, expiryOf, findingsOf, orOk } from "./finding.ts";
import { shadowedRules } from "./shadowed_rules.ts";

const DIAL_TIMEOUT_MS = 1_000;

/** The addresses of listeners, by name. */
function bindsOf(snapshot: Snapshot): readonly (readonly [name: string, address: TcpBind])[] {
  const { inbound, exposed, edges, upstreams } = snapshot;
  const all = Object.entries({ ...inbound, ...exposed, ...edges, ...upstreams });
  return all.flatMap(([name, { bind }]) => bind?.kind === "tcp" ? [[name, bind] as const] : []);
}

type TcpBind = Extract<Address, { kind: "tcp" }>;

/** Ports of a proxy that does not run. `ownerOf`: the sidecar of this machine that has an address. */
export async function checkPorts(
  snapshot: Snapshot,
  { engine, ownerOf }: {
    readonly engine: Engine;
    readonly ownerOf: (address: string) => string | undefined;
  },
): Promise<readonly DoctorFinding[]> {
  const { failure, ok } = findingsOf("ports");
  const binds = bindsOf(snapshot);
  const found = await Promise.all(binds.map(async ([name, bind]) => {
    const fault = await bindFault(bind, engine);
    if (fault === undefined) return [];
    const at = formatAddress(bind);
    const owner = ownerOf(at);
    return [failure({
      what: `listener ${name} cannot bind ${at}: ${owner ? `${owner} has it` : fault}`,
      why: "the listener carries no traffic until it is bound",
      fix: owner
        ? "stop that proxy, or give one of the two another port"
        : `find the owner with "ss -ltnp sport = :${bind.port}", or give the listener another port`,
    })];
  }));
  return binds.length === 0
    ? []
    : orOk(found.flat(), ok(`free for listeners: ${countOf(binds.length, "address")}`));
}

/** What follows "cannot bind ADDRESS: ". */
async function bindFault(address: TcpBind, engine: Engine): Promise<string | undefined> {
  try {
    const listener = await engine.listen({ address, reusePort: false }, (caller) => caller.close());
    listener.close();
    return undefined;
  } catch (error) {
    return messageOf(error).replace(/^Cannot listen on [^ ]*: /, "");
  }
}

/** Whether the local application accepts connections. */
export async function checkApplication(
  snapshot: Snapshot,
  engine: Engine,
): Promise<readonly DoctorFinding[]> {
  const { failure, ok } = findingsOf("application");
  const locals = new Map(
    Object.values(snapshot.inbound).map(({ local }) => [formatAddress(local), local]),
  );
  const found = await Promise.all([...locals].map(async ([at, local]) => {
    const fault = await dialFault(local, engine);
    if (fault === undefined) return [];
    return [failure({
      what: `the application of ${snapshot.service} does not answer on ${at}: ${fault}`,
      why: "callers from the mesh get 503, or their connection is closed",
      fix: "start the application, or correct its port in the registration",
    })];
  }));
  return locals.size === 0
    ? []
    : orOk(found.flat(), ok(`it accepts connections on ${[...locals.keys()].join(", ")}`));
}

function dialFault(address: Address, engine: Engine): Promise<string | undefined> {
  return new Promise((resolve) => {
    const timer = systemClock.after(DIAL_TIMEOUT_MS, () => {
      dial.cancel();
      resolve(`no answer within ${DIAL_TIMEOUT_MS / 1_000} s`);
    });
    const dial = engine.dial({ address }, {
      onConnected(connection) {
        timer.cancel();
        connection.close();
        resolve(undefined);
      },
      onFailed(_stage, reason) {
        timer.cancel();
        resolve(reason);
      },
    });
  });
}

/** `limits`: of the running proxy, or of this process. */
export function checkDescriptors(
  wanted: number,
  limits: { readonly maxConnections: number; readonly openFiles: number | undefined },
): readonly DoctorFinding[] {
  const { warning, ok } = findingsOf("descriptors");
  const fault = tooFewFiles(wanted, limits);
  if (fault === undefined) return [ok(`room for ${limits.maxConnections} connections`)];
  const [what = "", fix = ""] = fault.split("; ");
  return [warning({
    what,
    why: "further connections are refused",
    fix,
  })];
}

const SKEW_WARNING_MS = 10_000;
/** Consul's certificates are valid from one minute before they are signed. */
const SKEW_FAILURE_MS = 60_000;

/** `date`: header of a reply that came at `nowMs`. */
export function checkClock(date: string, nowMs: number): readonly DoctorFinding[] {
  const { failure, warning, ok } = findingsOf("clock");
  const serverMs = Date.parse(date);
  if (Number.isNaN(serverMs)) return [];
  // The header has whole seconds.
  const aheadMs = nowMs - serverMs - 500;
  const offMs = Math.abs(aheadMs);
  if (offMs < SKEW_WARNING_MS) return [ok("it agrees with Consul's")];
  const described = {
    what: `the clock of this machine is ${formatSpanMs(offMs)} ${
      aheadMs > 0 ? "ahead of" : "behind"
    } Consul's`,
    why: aheadMs > 0
      ? "certificates and tokens expire early here"
      : "new certificates and tokens are not valid yet here",
    fix: "synchronize it (chrony, systemd-timesyncd)",
  };
  return [offMs >= SKEW_FAILURE_MS && aheadMs < 0 ? failure(described) : warning(described)];
}

/** An agent renews a leaf at 60 to 90 % of its life. */
const LEAF_SHARE_LEFT = 1 / 12;
const ROOT_LEFT_MS = 30 * 86_400_000;

/** The mesh certificate, its roots, and certificates from other sources. */
export function checkCertificates(snapshot: Snapshot, nowMs: number): readonly DoctorFinding[] {
  const { failure, ok } = findingsOf("certificates");
  const { credentials, certificates } = snapshot;
  const found: DoctorFinding[] = [];
  const passed: string[] = [];
  const look = (what: string, dates: ValidFor, options: LookOptions) => {
    const finding = validityFinding(what, dates, options);
    if (finding) found.push(finding);
    else passed.push(`${what} ${expiryOf(dates.notAfterMs, nowMs)}`);
  };
  if (credentials) {
    const { uri, trustDomains, notBeforeMs, notAfterMs, rootPems } = credentials;
    const lifeMs = notAfterMs - notBeforeMs;
    look("the certificate of the proxy", credentials, {
      nowMs,
      earlyMs: lifeMs * LEAF_SHARE_LEFT,
      fix: "see why the agent does not renew it: /certs, and the log of the agent",
    });
    for (const root of rootPems.flatMap((pem) => datesOf(pem))) {
      look("a CA certificate of the mesh", root, {
        nowMs,
        earlyMs: ROOT_LEFT_MS,
        fix: "rotate the CA of Consul (consul connect ca set-config)",
      });
    }
    const own = parseServiceId(uri);
    if (own.kind === "service" && !trustDomains.includes(own.id.trustDomain)) {
      found.push(failure({
        what: `the certificate is of trust domain ${own.id.trustDomain}, and the mesh has ` +
          trustDomains.join(", "),
        why: "no other proxy accepts it",
        fix: "let the proxy get a new certificate; is the agent of another cluster?",
      }));
    }
  }
  for (const { name, source, certPem } of Object.values(certificates)) {
    const [leaf] = datesOf(certPem);
    if (!leaf) continue;
    look(`certificate ${name || source}`, leaf, {
      nowMs,
      earlyMs: (leaf.notAfterMs - leaf.notBeforeMs) / 3,
      fix: `renew it at its source, ${source}`,
    });
  }
  return passed.length > 0 ? [...found, ok(passed.join("; "))] : found;
}

interface ValidFor {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

interface LookOptions {
  readonly nowMs: number;
  /** A warning comes this long before the expiry. */
  readonly earlyMs: number;
  readonly fix: string;
}

function validityFinding(
  what: string,
  { notBeforeMs, notAfterMs }: ValidFor,
  { nowMs, earlyMs, fix }: LookOptions,
): DoctorFinding | undefined {
  const { failure, warning } = findingsOf("certificates");
  const why = "handshakes with an expired certificate fail";
  if (nowMs < notBeforeMs) {
    return failure({
      what: `${what} is valid only in ${formatSpanMs(notBeforeMs - nowMs)}`,
      why: "handshakes fail until then",
      fix: "synchronize the clocks of this machine and of Consul's servers",
    });
  }
  if (nowMs >= notAfterMs) {
    return failure({ what: `${what} ${expiryOf(notAfterMs, nowMs)}`, why, fix });
  }
  if (nowMs < notAfterMs - earlyMs) return undefined;
  return warning({ what: `${what} ${expiryOf(notAfterMs, nowMs)}`, why, fix });
}

function datesOf(pem: string): readonly ValidFor[] {
  try {
    return parsePem(pem, { what: "certificate" })
      .filter(({ label }) => label === "CERTIFICATE")
      .map(({ der }) => parseCertificate(der));
  } catch {
    // The snapshot was validated when it was made: what it holds can be read.
    return [];
  }
}

/** Rules about the own service that decide nothing, or deny without being meant to. */
export async function checkIntentions(snapshot: Snapshot): Promise<readonly DoctorFinding[]> {
  const { failure, warning, ok } = findingsOf("intentions");
  const { policy, inbound, service } = snapshot;
  const listeners = Object.values(inbound);
  if (listeners.length === 0) return [];
  if (policyNeedsRegexes(policy)) await prepareRegexes();
  const isPlain = listeners.every(({ http }) => http === null);
  const found = [
    ...shadowedRules(policy.intentions).map(({ rule, by, changesOutcome }) =>
      warning({
        what: `${rule} never applies to ${service}: ${by} covers everything that it covers`,
        why: changesOutcome
          ? "the two differ, and the one that comes first decides"
          : "both say the same, so that one of them is superfluous",
        fix: changesOutcome ? "make the first one narrower, or remove one of them" : "remove it",
      })
    ),
    ...policy.intentions.filter(({ action }) => isPlain && action === "permissions")
      .map(({ rule }) =>
        failure({
          what: `${rule} has permissions, and ${service} is tcp`,
          why: "permissions judge HTTP requests only: connections that it covers are refused",
          fix: `give ${service} the protocol http in service-defaults, or use a plain allow`,
        })
      ),
    ...policy.intentions.flatMap(({ rule, refused }) =>
      refused === undefined ? [] : [failure({
        what: `${rule} cannot be judged: ${refused}`,
        why: "requests that it covers are denied",
        fix: "correct the intention",
      })]
    ),
  ];
  const { length } = policy.intentions;
  return orOk(found, ok(`${length} for ${service}, default ${policy.defaultAction}`));
}
