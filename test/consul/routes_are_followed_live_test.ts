import { CONSUL } from "../kit/consul.ts";
import { routes } from "../stories/routes.ts";

routes(CONSUL);
