import { CONSUL } from "../kit/mesh/consul.ts";
import { routes } from "../stories/routes.ts";

routes(CONSUL);
