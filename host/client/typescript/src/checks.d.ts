/** The program's answer to a request. Throws what it says is wrong. */
export function check(request: object, program: Promise<WebAssembly.Module>): Promise<object>;
