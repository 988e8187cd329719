from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
name = 'pointwise.py.jinja'

def root(context, missing=missing):
    resolve = context.resolve_or_missing
    undefined = environment.undefined
    concat = environment.concat
    cond_expr_undefined = Undefined
    if 0: yield None
    l_0_kernels = resolve('kernels')
    l_0_differentiable = l_0_parameters = l_0_locate = l_0_entries = missing
    try:
        t_1 = environment.filters['join']
    except KeyError:
        @internalcode
        def t_1(*unused):
            raise TemplateRuntimeError("No filter named 'join' found.")
    try:
        t_2 = environment.filters['length']
    except KeyError:
        @internalcode
        def t_2(*unused):
            raise TemplateRuntimeError("No filter named 'length' found.")
    try:
        t_3 = environment.filters['wordwrap']
    except KeyError:
        @internalcode
        def t_3(*unused):
            raise TemplateRuntimeError("No filter named 'wordwrap' found.")
    pass
    included_template = environment.get_template('differentiable.jinja', 'pointwise.py.jinja')._get_default_module(context)
    l_0_differentiable = getattr(included_template, 'differentiable', missing)
    if l_0_differentiable is missing:
        l_0_differentiable = undefined(f"the template {included_template.__name__!r} (imported on line 2 in 'pointwise.py.jinja') does not export the requested name 'differentiable'", name='differentiable')
    context.vars['differentiable'] = l_0_differentiable
    context.exported_vars.discard('differentiable')
    def macro(l_1_k, l_1_reads, l_1_outputs):
        t_4 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        if l_1_reads is missing:
            l_1_reads = undefined("parameter 'reads' was not provided", name='reads')
        if l_1_outputs is missing:
            l_1_outputs = undefined("parameter 'outputs' was not provided", name='outputs')
        pass
        for l_2_each in l_1_reads:
            _loop_vars = {}
            pass
            t_4.extend((
                '    ',
                str(l_2_each),
                '_ptr,\n',
            ))
        l_2_each = missing
        t_4.extend((
            '    ',
            str(t_3(environment, t_1(context.eval_ctx, l_1_outputs, ', '), 115, wrapstring='\n    ')),
            ',\n',
        ))
        for l_2_each in l_1_reads:
            _loop_vars = {}
            pass
            t_4.extend((
                '    ',
                str(l_2_each),
                '_row, ',
                str(l_2_each),
                '_column,\n',
            ))
        l_2_each = missing
        t_4.append(
            '    rows,\n    columns,\n',
        )
        for l_2_n in environment.getattr(l_1_k, 'numbers'):
            _loop_vars = {}
            pass
            t_4.extend((
                '    ',
                str(l_2_n),
                ': tl.constexpr,\n',
            ))
        l_2_n = missing
        t_4.append(
            '    ACC: tl.constexpr,\n    ROWS: tl.constexpr,\n    COLUMNS: tl.constexpr,\n',
        )
        return concat(t_4)
    context.exported_vars.add('parameters')
    context.vars['parameters'] = l_0_parameters = Macro(environment, macro, 'parameters', ('k', 'reads', 'outputs'), False, False, False, context.eval_ctx.autoescape)
    def macro():
        t_5 = []
        pass
        t_5.append(
            '    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]\n    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)[None, :]\n    inside = (row < rows) & (column < columns)\n',
        )
        return concat(t_5)
    context.exported_vars.add('locate')
    context.vars['locate'] = l_0_locate = Macro(environment, macro, 'locate', (), False, False, False, context.eval_ctx.autoescape)
    def macro(l_1_k, l_1_names):
        t_6 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        if l_1_names is missing:
            l_1_names = undefined("parameter 'names' was not provided", name='names')
        pass
        for l_2_name in l_1_names:
            _loop_vars = {}
            pass
            t_6.extend((
                '    ',
                str(l_2_name),
                ' = tl.load(',
                str(l_2_name),
                '_ptr + row * ',
                str(l_2_name),
                '_row + column * ',
                str(l_2_name),
                '_column, mask=inside, other=0)',
                str(('' if (l_2_name in environment.getattr(l_1_k, 'whole')) else '.to(ACC)')),
                '\n',
            ))
        l_2_name = missing
        return concat(t_6)
    context.exported_vars.add('entries')
    context.vars['entries'] = l_0_entries = Macro(environment, macro, 'entries', ('k', 'names'), False, False, False, context.eval_ctx.autoescape)
    yield '\n\n'
    for l_1_k in (undefined(name='kernels') if l_0_kernels is missing else l_0_kernels):
        _loop_vars = {}
        pass
        yield '# '
        yield str(('-' * (115 - t_2(environment.getattr(l_1_k, 'public')))))
        yield ' '
        yield str(environment.getattr(l_1_k, 'public'))
        yield '\n\n\n@triton.jit\ndef '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_forward(\n'
        yield str(context.call((undefined(name='parameters') if l_0_parameters is missing else l_0_parameters), l_1_k, environment.getattr(l_1_k, 'inputs'), ['result_out'], _loop_vars=_loop_vars))
        yield '):  # fmt: skip\n    """A run of element-wise operations."""\n'
        yield str(context.call((undefined(name='locate') if l_0_locate is missing else l_0_locate), _loop_vars=_loop_vars))
        yield str(context.call((undefined(name='entries') if l_0_entries is missing else l_0_entries), l_1_k, environment.getattr(l_1_k, 'inputs'), _loop_vars=_loop_vars))
        for l_2_line in environment.getattr(l_1_k, 'forward'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        yield '    tl.store(result_out + row * columns + column, result, mask=inside)\n\n\n@triton.jit\ndef '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_backward(\n'
        yield str(context.call((undefined(name='parameters') if l_0_parameters is missing else l_0_parameters), l_1_k, (environment.getattr(l_1_k, 'reads') + ['gradient']), environment.getattr(l_1_k, 'gradient_outputs'), _loop_vars=_loop_vars))
        yield '):  # fmt: skip\n    """Its derivatives, from the values it starts from."""\n'
        yield str(context.call((undefined(name='locate') if l_0_locate is missing else l_0_locate), _loop_vars=_loop_vars))
        yield str(context.call((undefined(name='entries') if l_0_entries is missing else l_0_entries), l_1_k, (environment.getattr(l_1_k, 'reads') + ['gradient']), _loop_vars=_loop_vars))
        for l_2_line in environment.getattr(l_1_k, 'backward'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_2_line)
            yield '\n'
        l_2_line = missing
        for l_2_each in environment.getattr(l_1_k, 'learned'):
            _loop_vars = {}
            pass
            yield '    tl.store(d_'
            yield str(l_2_each)
            yield '_out + row * columns + column, d_'
            yield str(l_2_each)
            yield ', mask=inside)\n'
        l_2_each = missing
        yield '\n\n@torch.library.custom_op(f"{_NAMESPACE}::'
        yield str(environment.getattr(l_1_k, 'name'))
        yield '", mutates_args=())\ndef '
        yield str(environment.getattr(l_1_k, 'operator'))
        yield '('
        yield str(environment.getattr(l_1_k, 'signature'))
        yield ') -> Tensor:\n    """Launches '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_forward."""\n    result = '
        yield str(environment.getattr(l_1_k, 'like'))
        yield '.new_empty('
        yield str(environment.getattr(l_1_k, 'like'))
        yield '.shape)\n    _launch_pointwise(\n        '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_forward,\n        result,\n        ('
        yield str(t_1(context.eval_ctx, (environment.getattr(l_1_k, 'inputs') + ['result']), ', '))
        yield ', '
        yield str(environment.getattr(l_1_k, 'strides'))
        yield '),\n        '
        yield str(environment.getattr(l_1_k, 'constants'))
        yield ',\n    )\n    return result\n\n\n@'
        yield str(environment.getattr(l_1_k, 'operator'))
        yield '.register_fake\ndef _('
        yield str(environment.getattr(l_1_k, 'signature'))
        yield ') -> Tensor:\n    return '
        yield str(environment.getattr(l_1_k, 'like'))
        yield '.new_empty('
        yield str(environment.getattr(l_1_k, 'like'))
        yield '.shape)\n\n\n@torch.library.custom_op(f"{_NAMESPACE}::'
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_gradient", mutates_args=())\ndef '
        yield str(environment.getattr(l_1_k, 'operator'))
        yield '_gradient(gradient: Tensor, '
        yield str(environment.getattr(l_1_k, 'signature'))
        yield ') -> '
        yield str(environment.getattr(l_1_k, 'gradient_returns'))
        yield ':\n    """Launches '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_backward."""\n'
        for l_2_each in environment.getattr(l_1_k, 'learned'):
            _loop_vars = {}
            pass
            yield '    d_'
            yield str(l_2_each)
            yield ' = '
            yield str(l_2_each)
            yield '.new_empty('
            yield str(l_2_each)
            yield '.shape)\n'
        l_2_each = missing
        yield '    _launch_pointwise(\n        '
        yield str(environment.getattr(l_1_k, 'name'))
        yield '_backward,\n        gradient,\n        ('
        yield str(t_1(context.eval_ctx, ((environment.getattr(l_1_k, 'reads') + ['gradient']) + environment.getattr(l_1_k, 'gradients')), ', '))
        yield ', '
        yield str(environment.getattr(l_1_k, 'gradient_strides'))
        yield '),\n        '
        yield str(environment.getattr(l_1_k, 'constants'))
        yield ',\n    )\n    return '
        yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'gradients'), ', '))
        yield '\n\n\n@'
        yield str(environment.getattr(l_1_k, 'operator'))
        yield '_gradient.register_fake\ndef _(gradient: Tensor, '
        yield str(environment.getattr(l_1_k, 'signature'))
        yield ') -> '
        yield str(environment.getattr(l_1_k, 'gradient_returns'))
        yield ':\n    return '
        yield str(t_1(context.eval_ctx, environment.getattr(l_1_k, 'gradient_fake'), ', '))
        yield '\n\n\n'
        yield str(context.call((undefined(name='differentiable') if l_0_differentiable is missing else l_0_differentiable), l_1_k, '', _loop_vars=_loop_vars))
        yield '\n\ndef '
        yield str(environment.getattr(l_1_k, 'public'))
        yield '('
        yield str(environment.getattr(l_1_k, 'public_signature'))
        yield ') -> Tensor:\n    """A run of element-wise operations on values that broadcast together, in the dtype of '
        yield str(environment.getattr(l_1_k, 'like'))
        yield '."""\n    shape = torch.broadcast_shapes('
        yield str(environment.getattr(l_1_k, 'shapes'))
        yield ')\n'
        for l_2_each in environment.getattr(l_1_k, 'inputs'):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_2_each)
            yield ' = '
            yield str(l_2_each)
            yield '.expand(shape).reshape(-1, shape[-1])\n'
        l_2_each = missing
        yield '    return '
        yield str(environment.getattr(l_1_k, 'function'))
        yield '.apply('
        yield str(t_1(context.eval_ctx, (environment.getattr(l_1_k, 'inputs') + environment.getattr(l_1_k, 'numbers')), ', '))
        yield ').reshape(shape)\n\n\n'
    l_1_k = missing

blocks = {}
debug_info = '2=31&3=37&4=46&5=51&7=57&8=60&9=65&13=74&14=79&20=89&25=98&26=105&27=110&32=126&33=130&37=134&38=136&41=138&42=139&43=140&44=144&50=148&51=150&54=152&55=153&56=154&57=158&59=161&60=165&64=171&65=173&66=177&67=179&69=183&71=185&72=189&77=191&78=193&79=195&82=199&83=201&84=207&85=209&86=213&89=221&91=223&92=227&94=229&97=231&98=233&99=237&102=239&104=241&105=245&106=247&107=249&108=253&110=259'