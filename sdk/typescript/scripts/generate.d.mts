export declare function generate(): Promise<string>;
