/**
 * Databases of the machine's own packages, each in a temporary directory on a loopback address of its
 * own, run as an ordinary user where they refuse to run as root.
 *
 * @module
 */

import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peer } from "../../scripts/peers.ts";
import type { Place } from "../kit/wire/echo.ts";
import { freePort } from "../kit/process/ports.ts";
import { Process, runToEnd } from "../kit/process/process.ts";

export interface Database extends Place, AsyncDisposable {}

export async function startRedis(host: string): Promise<Database> {
  const port = await freePort(host);
  const directory = await mkdtemp(join(tmpdir(), "postern-redis-"));
  const server = new Process(peer("redis-server"), [
    ...["--bind", host, "--port", String(port), "--dir", directory],
    ...["--save", "", "--appendonly", "no"],
  ]);
  return await ready({ host, port, directory, server, line: /Ready to accept connections/ });
}

export async function startPostgres(host: string): Promise<Database> {
  const port = await freePort(host);
  const directory = await mkdtemp(join(tmpdir(), "postern-postgres-"));
  const data = join(directory, "data");
  await ownedBy("postgres", directory);
  const init = as("postgres", peer("initdb"), ["-D", data, "-U", "postgres", "-A", "trust", "-N"]);
  await runToEnd(init.command, init.args, { timeoutMs: 120_000, cwd: directory });
  const run = as("postgres", peer("postgres"), [
    ...["-D", data, "-h", host, "-p", String(port), "-k", directory],
    ...["-c", "fsync=off", "-c", "listen_addresses=" + host],
  ]);
  const server = new Process(run.command, run.args, { name: "postgres", cwd: directory });
  return await ready({ host, port, directory, server, line: /ready to accept connections/ });
}

/** A user `load` without password may do everything. */
export async function startMariadb(host: string): Promise<Database> {
  const port = await freePort(host);
  const directory = await mkdtemp(join(tmpdir(), "postern-mariadb-"));
  const data = join(directory, "data");
  await ownedBy("mysql", directory);
  await runToEnd(peer("mariadb-install-db"), [
    ...["--no-defaults", `--datadir=${data}`, "--user=mysql", "--skip-test-db"],
    "--auth-root-authentication-method=normal",
  ], { timeoutMs: 120_000, cwd: directory });
  const server = new Process(peer("mariadbd"), [
    ...["--no-defaults", `--datadir=${data}`, `--bind-address=${host}`, `--port=${port}`],
    ...["--user=mysql", `--socket=${join(directory, "sock")}`, "--skip-name-resolve"],
    // The load comes from another loopback address than the one that "root@localhost" means.
    "--skip-grant-tables",
  ], { name: "mariadbd", cwd: directory });
  return await ready({ host, port, directory, server, line: /ready for connections/ });
}

interface Started extends Place {
  readonly directory: string;
  readonly server: Process;
  readonly line: RegExp;
}

async function ready({ host, port, directory, server, line }: Started): Promise<Database> {
  const stop = async () => {
    server.kill("SIGQUIT");
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await server.waitFor(line, { timeoutMs: 120_000 });
  } catch (error) {
    await stop();
    throw error;
  }
  return { host, port, [Symbol.asyncDispose]: stop };
}

/** The same command as another user, where this one is root. */
function as(user: string, command: string, args: readonly string[]) {
  if (process.getuid?.() !== 0) return { command, args };
  return {
    command: "setpriv",
    args: ["--reuid", user, "--regid", user, "--clear-groups", command, ...args],
  };
}

async function ownedBy(user: string, directory: string): Promise<void> {
  await chmod(directory, 0o755);
  if (process.getuid?.() !== 0) return;
  await runToEnd("chown", [user, directory], { timeoutMs: 5_000 });
}
