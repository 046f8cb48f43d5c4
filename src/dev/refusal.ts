/** An answer with an error status and a text, thrown by the code that finds the fault. @module */
export class HttpRefusal extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, text: string, headers: Readonly<Record<string, string>> = {}) {
    super(text);
    this.name = "HttpRefusal";
    this.status = status;
    this.headers = headers;
  }
}
