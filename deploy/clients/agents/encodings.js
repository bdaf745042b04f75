// LangChain counts the tokens of a stream itself, with an encoding that it downloads. Here
// the encoding comes from an installed package, so that no agent needs the internet.
'use strict';
const { fetch } = globalThis;
const download = /^https:\/\/tiktoken\.pages\.dev\/js\/(\w+)\.json$/;

globalThis.fetch = async (resource, options) => {
  const encoding = download.exec(String(resource))?.[1];
  return encoding ? Response.json(require('js-tiktoken/ranks/' + encoding)) : fetch(resource, options);
};
