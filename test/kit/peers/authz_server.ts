/**
 * An HTTP authorization service: it lets those requests through that show a pass, answers as fast as the
 * test sets, and may be gone for a while.
 *
 * @module
 */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export const PASS = "x-pass";

export class AuthzServer implements AsyncDisposable {
  delayMs = 0;
  asked = 0;
  #server: Server | undefined;
  #port = 0;

  static async start(): Promise<AuthzServer> {
    const it = new AuthzServer();
    await it.come();
    return it;
  }

  /** As `ext_authz` names it. */
  get target(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** Again at the port that it had. */
  async come(): Promise<void> {
    const server = createServer((request, response) => {
      this.asked++;
      const status = request.headers[PASS] === undefined ? 403 : 200;
      setTimeout(() => response.writeHead(status).end(), this.delayMs);
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.#port, "127.0.0.1", resolve);
    });
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async go(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (!server) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.go();
  }
}
